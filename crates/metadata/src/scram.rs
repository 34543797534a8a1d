//! SCRAM credentials by user and mechanism (`ScramImage`): what a login is checked with. A password is nowhere, and
//! keys are not shown by Debug.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use wire::Secret;
use wire::state::metadata::{MetadataRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord};

use super::ordered_map::OrderedMap;

/// How keys are derived from a password (`ScramMechanism`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScramMechanism {
    Sha256 = 1,
    Sha512 = 2,
}

impl ScramMechanism {
    pub fn from_id(id: i8) -> Option<Self> {
        [Self::Sha256, Self::Sha512].into_iter().find(|mechanism| *mechanism as i8 == id)
    }

    /// How many bytes a key has.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// What a client's proof is checked with, and the broker's own proof is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScramCredential {
    pub salt: Bytes,
    pub stored_key: Secret,
    pub server_key: Secret,
    pub iterations: i32,
}

/// Why a record does not fit the credentials that are there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCredential {
    #[error("SCRAM mechanism {0} is not known")]
    UnknownMechanism(i8),
    #[error("user {0} has no such SCRAM credential")]
    NotThere(String),
}

/// At least one, and one of each mechanism at most.
type OfUser = Arc<BTreeMap<ScramMechanism, ScramCredential>>;

/// The credentials of all users. Copies share what is the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScramCredentials {
    by_user: OrderedMap<Arc<str>, OfUser>,
}

impl ScramCredentials {
    pub fn get(&self, user: &str, mechanism: ScramMechanism) -> Option<&ScramCredential> {
        self.of_user(user)?.get(&mechanism)
    }

    /// What a user has, who has at least one.
    pub fn of_user(&self, user: &str) -> Option<&BTreeMap<ScramMechanism, ScramCredential>> {
        self.by_user.get(user).map(|credentials| &**credentials)
    }

    /// Users that have credentials, in the order of their names.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.by_user.iter().map(|(user, _)| &**user)
    }

    pub fn user_count(&self) -> usize {
        self.by_user.len()
    }

    pub(super) fn set(&mut self, record: &UserScramCredentialRecord) -> Result<(), InvalidCredential> {
        let mechanism = known(record.mechanism)?;
        let credential = ScramCredential {
            salt: record.salt.clone(),
            stored_key: record.stored_key.clone(),
            server_key: record.server_key.clone(),
            iterations: record.iterations,
        };
        let mut credentials = self.by_user.get(&*record.name).map(|all| (**all).clone()).unwrap_or_default();
        credentials.insert(mechanism, credential);
        self.by_user.insert(record.name.as_str().into(), Arc::new(credentials));
        Ok(())
    }

    pub(super) fn remove(&mut self, record: &RemoveUserScramCredentialRecord) -> Result<(), InvalidCredential> {
        let mechanism = known(record.mechanism)?;
        let not_there = || InvalidCredential::NotThere(record.name.clone());
        let mut credentials = self.of_user(&record.name).ok_or_else(not_there)?.clone();
        credentials.remove(&mechanism).ok_or_else(not_there)?;
        if credentials.is_empty() {
            self.by_user.remove(&*record.name);
        } else {
            self.by_user.insert(record.name.as_str().into(), Arc::new(credentials));
        }
        Ok(())
    }

    /// Records that make these credentials out of none.
    pub(super) fn to_records(&self) -> impl Iterator<Item = MetadataRecord> {
        self.by_user.iter().flat_map(|(user, credentials)| {
            credentials.iter().map(|(mechanism, credential)| {
                let record = UserScramCredentialRecord {
                    name: user.to_string(),
                    mechanism: *mechanism as i8,
                    salt: credential.salt.clone(),
                    stored_key: credential.stored_key.clone(),
                    server_key: credential.server_key.clone(),
                    iterations: credential.iterations,
                };
                record.into()
            })
        })
    }
}

fn known(mechanism: i8) -> Result<ScramMechanism, InvalidCredential> {
    ScramMechanism::from_id(mechanism).ok_or(InvalidCredential::UnknownMechanism(mechanism))
}

#[cfg(test)]
mod tests {
    use ScramMechanism::{Sha256, Sha512};
    use wire::state::metadata::NoOpRecord;

    use super::*;
    use crate::{ApplyError, MetadataImage};

    fn record(name: &str, mechanism: i8, iterations: i32) -> UserScramCredentialRecord {
        UserScramCredentialRecord {
            name: name.to_owned(),
            mechanism,
            salt: Bytes::from_static(b"salt"),
            stored_key: Secret(Bytes::from_static(b"canary")),
            server_key: Secret(Bytes::from_static(b"canary")),
            iterations,
        }
    }

    fn removal(name: &str, mechanism: i8) -> RemoveUserScramCredentialRecord {
        RemoveUserScramCredentialRecord { name: name.to_owned(), mechanism }
    }

    fn iterations(credentials: &ScramCredentials, user: &str) -> [Option<i32>; 2] {
        [Sha256, Sha512].map(|mechanism| credentials.get(user, mechanism).map(|credential| credential.iterations))
    }

    #[test]
    fn a_user_has_one_credential_of_each_mechanism() {
        let mut credentials = ScramCredentials::default();
        for (mechanism, iterations) in [(1, 4096), (2, 5000), (1, 6000)] {
            assert_eq!(credentials.set(&record("a", mechanism, iterations)), Ok(()));
        }
        let before = credentials.clone();
        assert_eq!(iterations(&credentials, "a"), [Some(6000), Some(5000)]);
        assert_eq!(credentials.remove(&removal("a", 1)), Ok(()));
        assert_eq!((iterations(&credentials, "a"), credentials.user_count()), ([None, Some(5000)], 1));
        assert_eq!(credentials.remove(&removal("a", 2)), Ok(()));
        assert_eq!((credentials.user_count(), credentials.of_user("a")), (0, None));
        assert_eq!(iterations(&before, "a"), [Some(6000), Some(5000)], "a copy does not change");
    }

    #[test]
    fn records_that_do_not_fit_are_errors() {
        let mut credentials = ScramCredentials::default();
        assert_eq!(credentials.set(&record("a", 3, 1)), Err(InvalidCredential::UnknownMechanism(3)));
        assert_eq!(credentials.remove(&removal("a", 1)), Err(InvalidCredential::NotThere("a".to_owned())));
        credentials.set(&record("a", 1, 4096)).unwrap();
        assert_eq!(credentials.remove(&removal("a", 0)), Err(InvalidCredential::UnknownMechanism(0)));
        assert_eq!(credentials.remove(&removal("a", 2)), Err(InvalidCredential::NotThere("a".to_owned())));
        assert_eq!(iterations(&credentials, "a"), [Some(4096), None]);
    }

    #[test]
    fn they_are_in_the_image_the_delta_and_the_snapshot() {
        let apply = |image: &MetadataImage, records: &[MetadataRecord]| image.apply(records, image.offset() + 1, 1);
        let records = [record("a", 1, 4096).into(), record("b", 2, 5000).into(), record("a", 2, 6000).into()];
        let (image, delta) = apply(&MetadataImage::default(), &records).unwrap();
        assert!(delta.scram_changed && !delta.quotas_changed);
        assert_eq!(image.scram().users().collect::<Vec<_>>(), ["a", "b"]);
        let (less, delta) = apply(&image, &[removal("b", 2).into()]).unwrap();
        assert!(delta.scram_changed);
        assert_eq!(less.scram().user_count(), 1);
        assert!(!apply(&less, &[NoOpRecord {}.into()]).unwrap().1.scram_changed);
        for (before, scram_changed) in [(&image, false), (&less, true)] {
            let (mut again, mut delta) = apply(&MetadataImage::default(), &image.to_records()).unwrap();
            assert_eq!(again.scram(), image.scram());
            again.continue_after(before, &mut delta);
            assert_eq!(delta.scram_changed, scram_changed);
        }
        let error = ApplyError::Credential(InvalidCredential::UnknownMechanism(3));
        assert_eq!(apply(&image, &[record("a", 3, 1).into()]), Err(error));
    }

    #[test]
    fn keys_are_not_shown() {
        let mut credentials = ScramCredentials::default();
        credentials.set(&record("a", 1, 4096)).unwrap();
        let shown = format!("{credentials:?}");
        assert!(shown.contains("4096") && !shown.contains("canary"), "{shown}");
    }
}
