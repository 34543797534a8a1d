//! DescribeClientQuotas (key 48), versions 0-1: the quotas of users, client ids and addresses (KIP-546, KIP-612).
//!
//! Behaviour:
//! - Entities that have what all components name: that very name (0), the default (1), any of the two (2). Without
//!   `strict` they may have other parts too; no component is all entities.
//! - A component that is none is INVALID_REQUEST, one of a type that does not exist UNSUPPORTED_VERSION, and entries
//!   are null then.
//! - All spellings of an address are the same.

use std::sync::Arc;

use metadata::changes::quotas;
use wire::ErrorCode;
use wire::api::describe_client_quotas::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};

use super::RequestContext;
use crate::Broker;
use crate::memory::LargeAnswer;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let _permit = context.large_answer(broker, LargeAnswer::Described).await;
    match quotas::describe(&broker.metadata.load(), &request) {
        Ok(entries) => DescribeClientQuotasResponse { entries: Some(entries), ..Default::default() },
        Err(refusal) => DescribeClientQuotasResponse {
            error_code: refusal.code,
            error_message: refusal.message,
            ..Default::default()
        },
    }
}

/// The answer to who may not.
pub(super) fn refused(_: &DescribeClientQuotasRequest, error_code: ErrorCode) -> DescribeClientQuotasResponse {
    DescribeClientQuotasResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::api::describe_client_quotas::{ComponentData, EntityData, EntryData, ValueData};
    use wire::state::metadata::{self, ClientQuotaRecord};

    use super::*;
    use crate::api::test_support::{TestBroker, context};

    #[tokio::test]
    async fn quotas_are_described_from_the_metadata() {
        let broker = TestBroker::start().await;
        let entity = vec![metadata::EntityData { entity_type: "user".into(), entity_name: None }];
        let record = ClientQuotaRecord { entity, key: "consumer_byte_rate".into(), value: 5.0, remove: false };
        broker.commit([record.into()]).await;
        let ask = async |kind: &str, match_type| {
            let component = ComponentData { entity_type: kind.to_owned(), match_type, match_name: None };
            let request = DescribeClientQuotasRequest { components: vec![component], strict: true };
            let answer = handle(&broker, &context(1), request).await;
            (answer.error_code.0, answer.entries)
        };
        let entry = EntryData {
            entity: vec![EntityData { entity_type: "user".into(), entity_name: None }],
            values: vec![ValueData { key: "consumer_byte_rate".into(), value: 5.0 }],
        };
        assert_eq!(ask("user", 1).await, (0, Some(vec![entry])));
        assert_eq!(ask("client-id", 2).await, (0, Some(vec![])));
        assert_eq!(ask("user", 0).await, (42, None));
        assert_eq!(ask("group", 2).await, (35, None));
    }
}
