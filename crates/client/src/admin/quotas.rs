//! Quotas of users, client ids and addresses (KIP-546, KIP-612).

use std::collections::BTreeMap;
use std::fmt;

use wire::ErrorCode;
use wire::api::alter_client_quotas::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterationEntry, EntityData, OpData,
};
use wire::api::describe_client_quotas::{ComponentData, DescribeClientQuotasRequest};

use crate::{Client, ClientError};

/// The types of entities.
pub const QUOTA_USER: &str = "user";
pub const QUOTA_CLIENT_ID: &str = "client-id";
pub const QUOTA_IP: &str = "ip";

/// That very name, and the default (`DescribeClientQuotasRequest`).
const MATCH_EXACT: i8 = 0;
const MATCH_DEFAULT: i8 = 1;

/// Whose quotas they are: names by their types. Without a name they are those of all that have none of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaEntity(pub BTreeMap<String, Option<String>>);

impl fmt::Display for QuotaEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, name)) in self.0.iter().rev().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            match name {
                Some(name) => write!(f, "{separator}{kind} {name:?}")?,
                None => write!(f, "{separator}default {kind}")?,
            }
        }
        Ok(())
    }
}

/// Values by their keys, such as `producer_byte_rate`.
pub type Quotas = BTreeMap<String, f64>;

impl Client {
    /// The quotas of all entities that have these names, and perhaps others.
    pub async fn describe_quotas(&self, with: &QuotaEntity) -> Result<BTreeMap<QuotaEntity, Quotas>, ClientError> {
        let component = |(kind, name): (&String, &Option<String>)| ComponentData {
            entity_type: kind.clone(),
            match_type: if name.is_some() { MATCH_EXACT } else { MATCH_DEFAULT },
            match_name: name.clone(),
        };
        let components = with.0.iter().map(component).collect();
        let response = self.send(&DescribeClientQuotasRequest { components, strict: false }).await?;
        ClientError::check(|| "the quotas".to_owned(), response.error_code, response.error_message.as_deref())?;
        let entries = response.entries.unwrap_or_default().into_iter().map(|entry| {
            let names = entry.entity.into_iter().map(|part| (part.entity_type, part.entity_name));
            let values = entry.values.into_iter().map(|value| (value.key, value.value));
            (QuotaEntity(names.collect()), values.collect())
        });
        Ok(entries.collect())
    }

    /// Sets and removes quotas of an entity, all of them or none.
    pub async fn alter_quotas(
        &self,
        entity: &QuotaEntity,
        set: &[(String, f64)],
        removed: &[String],
    ) -> Result<(), ClientError> {
        let names = entity.0.iter();
        let names = names.map(|(kind, name)| EntityData { entity_type: kind.clone(), entity_name: name.clone() });
        let set = set.iter().map(|(key, value)| OpData { key: key.clone(), value: *value, remove: false });
        let removed = removed.iter().map(|key| OpData { key: key.clone(), value: 0.0, remove: true });
        let entry = AlterationEntry { entity: names.collect(), ops: set.chain(removed).collect() };
        let request = AlterClientQuotasRequest { entries: vec![entry], validate_only: false };
        let code = |response: &AlterClientQuotasResponse| {
            response.entries.first().map_or(ErrorCode::NONE, |entry| entry.error_code)
        };
        for entry in self.send_to_controller(&request, code).await?.entries {
            let subject = || format!("cannot alter the quotas of {entity}");
            ClientError::check(subject, entry.error_code, entry.error_message.as_deref())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wire::api::alter_client_quotas::AlterationResult;
    use wire::api::describe_client_quotas::{self, DescribeClientQuotasResponse, EntryData, ValueData};

    use super::*;
    use crate::fake_cluster::FakeCluster;

    const VERSIONS: [(i16, i16); 2] = [(48, 1), (49, 1)];

    fn entity(names: &[(&str, Option<&str>)]) -> QuotaEntity {
        QuotaEntity(names.iter().map(|(kind, name)| ((*kind).to_owned(), name.map(str::to_owned))).collect())
    }

    #[test]
    fn entities_are_told_in_words() {
        let both = entity(&[(QUOTA_USER, Some("a")), (QUOTA_CLIENT_ID, None)]);
        assert_eq!(both.to_string(), "user \"a\", default client-id");
        assert_eq!(entity(&[(QUOTA_IP, Some("::1"))]).to_string(), "ip \"::1\"");
    }

    #[tokio::test]
    async fn quotas_are_asked_for_by_name_or_as_defaults() {
        let cluster = FakeCluster::start(1, Vec::new(), &VERSIONS, |question| {
            let request = question.read::<DescribeClientQuotasRequest>()?;
            // What is asked for is what there is.
            let entity = request.components.into_iter().map(|component| {
                assert_eq!(component.match_type == MATCH_DEFAULT, component.match_name.is_none());
                describe_client_quotas::EntityData {
                    entity_type: component.entity_type,
                    entity_name: component.match_name,
                }
            });
            let values = vec![ValueData { key: "request_percentage".to_owned(), value: 50.0 }];
            let entries = Some(vec![EntryData { entity: entity.collect(), values }]);
            let response = DescribeClientQuotasResponse { entries, ..Default::default() };
            question.answer::<DescribeClientQuotasRequest>(&response)
        });
        let both = entity(&[(QUOTA_USER, Some("a")), (QUOTA_CLIENT_ID, None)]);
        let described = cluster.await.client().describe_quotas(&both).await;
        let quotas = Quotas::from([("request_percentage".to_owned(), 50.0)]);
        assert_eq!(described, Ok([(both, quotas)].into()));
    }

    #[tokio::test]
    async fn what_is_set_and_removed_goes_out_together() {
        let cluster = FakeCluster::start(1, Vec::new(), &VERSIONS, |question| {
            let mut request = question.read::<AlterClientQuotasRequest>()?;
            let entry = request.entries.pop()?;
            let ops = entry.ops.iter().map(|op| (op.key.as_str(), op.value, op.remove));
            let is_right = ops.eq([("producer_byte_rate", 5.0, false), ("consumer_byte_rate", 0.0, true)]);
            let error_code = if is_right { ErrorCode::NONE } else { ErrorCode::INVALID_REQUEST };
            let result = AlterationResult { error_code, error_message: Some("no".to_owned()), entity: entry.entity };
            let response = AlterClientQuotasResponse { entries: vec![result], ..Default::default() };
            question.answer::<AlterClientQuotasRequest>(&response)
        });
        let client = cluster.await.client();
        let (set, removed) = ([("producer_byte_rate".to_owned(), 5.0)], ["consumer_byte_rate".to_owned()]);
        let user = entity(&[(QUOTA_USER, Some("a"))]);
        assert_eq!(client.alter_quotas(&user, &set, &removed).await, Ok(()));
        let error = client.alter_quotas(&user, &set, &[]).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot alter the quotas of user \"a\": no (INVALID_REQUEST)");
    }
}
