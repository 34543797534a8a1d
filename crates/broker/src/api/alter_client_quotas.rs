//! AlterClientQuotas (key 49), versions 0-1: set and remove quotas of users, client ids and addresses (KIP-546,
//! KIP-612).
//!
//! Behaviour:
//! - Each entity is altered as a whole or refused by itself: INVALID_REQUEST, with Kafka's words
//!   ([`metadata::changes::quotas`]). Each is answered once, in the order of the request.
//! - An entity that is there twice is not altered (Kafka does what the first mention says, and answers with an error).
//! - An address is one: names are not looked up, as Kafka does. All spellings of an address are the same entity.
//! - Quotas that are no number, and infinite percentages, are refused; Kafka takes them.
//! - `validate_only` answers as if, and changes nothing.
//! - More than 25,000 entities are POLICY_VIOLATION, names of more than 1,024 bytes are INVALID_REQUEST. Kafka has no
//!   such bounds.

use std::fmt;
use std::sync::Arc;

use wire::ErrorCode;
use wire::api::alter_client_quotas::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterationEntry, AlterationResult,
};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: AlterClientQuotasRequest,
) -> AlterClientQuotasResponse {
    let asked = request.entries.clone();
    let validate_only = request.validate_only;
    let answer = context.ask_controller(broker, request).await.unwrap_or_else(|error| {
        let refused = |entry: &AlterationEntry| AlterationResult {
            error_code: error.code(),
            error_message: Some(error.to_string()),
            entity: entry.entity.clone(),
        };
        AlterClientQuotasResponse { entries: asked.iter().map(refused).collect(), ..Default::default() }
    });
    if !validate_only {
        let mut results = answer.entries.iter().peekable();
        for entry in &asked {
            // One that is there twice is answered once.
            let result = results.next_if(|result| result.entity == entry.entity);
            if result.is_some_and(|result| result.error_code.is_none()) {
                broker.audit.changed(context.asker(), &Change(entry));
            }
        }
    }
    answer
}

/// `user="alice": producer_byte_rate=1048576`.
struct Change<'a>(&'a AlterationEntry);

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.entity.iter().enumerate() {
            let name = part.entity_name.as_deref().unwrap_or("<default>");
            write!(f, "{}{}={name:?}", if index == 0 { "" } else { " " }, part.entity_type)?;
        }
        for (index, op) in self.0.ops.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { ": " } else { ", " }, op.key)?;
            if op.remove { f.write_str(" removed")? } else { write!(f, "={}", op.value)? }
        }
        Ok(())
    }
}

/// The answer to who may not.
pub(super) fn refused(request: &AlterClientQuotasRequest, error_code: ErrorCode) -> AlterClientQuotasResponse {
    let entries = request.entries.iter().map(|entry| AlterationResult {
        error_code,
        entity: entry.entity.clone(),
        ..Default::default()
    });
    AlterClientQuotasResponse { entries: entries.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::api::alter_client_quotas::{EntityData, OpData};

    use super::*;
    use crate::api::test_support::{TestBroker, context};

    fn set(kind: &str, name: &str, value: f64) -> AlterationEntry {
        let entity = EntityData { entity_type: kind.to_owned(), entity_name: Some(name.to_owned()) };
        let op = OpData { key: "producer_byte_rate".to_owned(), value, remove: false };
        AlterationEntry { entity: vec![entity], ops: vec![op] }
    }

    #[tokio::test]
    async fn entities_are_answered_in_the_order_of_the_request() {
        let broker = TestBroker::start().await;
        for (validate_only, after) in [(true, 0), (false, 2)] {
            let entries = vec![set("user", "a", 5.0), set("ip", "1.2.3.4", 5.0), set("client-id", "b", 6.0)];
            let asked: Vec<_> = entries.iter().map(|entry| entry.entity.clone()).collect();
            let answer = handle(&broker, &context(1), AlterClientQuotasRequest { entries, validate_only }).await;
            let (codes, entities): (Vec<_>, Vec<_>) =
                answer.entries.into_iter().map(|entry| (entry.error_code, entry.entity)).unzip();
            assert_eq!(codes, [ErrorCode::NONE, ErrorCode::INVALID_REQUEST, ErrorCode::NONE]);
            assert_eq!(entities, asked);
            assert_eq!(broker.metadata.load().quotas().entity_count(), after);
        }
    }
}
