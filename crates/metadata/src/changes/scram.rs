//! SCRAM credentials are made, replaced, deleted and described (`ScramControlManager`, `ScramImage.describe`; KIP-554).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use wire::ErrorCode;
use wire::api::alter_scram_keys::{AlterScramKeysRequest, ScramKeysUpsertion};
use wire::api::alter_user_scram_credentials::{AlterUserScramCredentialsResult, ScramCredentialDeletion};
use wire::api::describe_user_scram_credentials::{CredentialInfo, DescribeUserScramCredentialsResult, UserName};
use wire::state::metadata::{MetadataRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord};

use super::{Context, Decision, RECORDS_MAX, Refusal};
use crate::image::MetadataImage;
use crate::scram::{ScramCredential, ScramMechanism};

/// Users that may have credentials, of any cluster. All of them fit into one answer. Kafka has no such bound.
const USERS_MAX: usize = 50_000;
/// The longest name of a user, and the longest salt. Kafka has no such bounds; its own clients' salts have some 26
/// bytes.
const NAME_BYTES_MAX: usize = 1_024;
const SALT_BYTES_MAX: usize = 256;
/// `ScramMechanism.minIterations`.
const ITERATIONS_MIN: i32 = 4_096;
/// `ScramControlManager.MAX_ITERATIONS`.
const ITERATIONS_MAX: i32 = 16_384;

/// Deletes and sets credentials, one of each user at most: each user is answered once, in the order of the request.
pub fn alter(context: &Context<'_>, request: &AlterScramKeysRequest) -> Decision<Vec<AlterUserScramCredentialsResult>> {
    let mut users = Users::default();
    for deletion in &request.deletions {
        users.add(&deletion.name, || delete(context.image, deletion));
    }
    for upsertion in &request.upsertions {
        users.add(&upsertion.name, || upsert(upsertion));
    }
    let mut user_count = context.image.scram().user_count();
    let mut records: Vec<MetadataRecord> = Vec::new();
    let mut answer = Vec::with_capacity(users.outcomes.len());
    for (user, outcome) in users.outcomes {
        let outcome = outcome.and_then(|record| {
            if records.len() >= RECORDS_MAX {
                return Err(Refusal::too_large());
            }
            if context.image.scram().of_user(user).is_none() {
                if user_count >= USERS_MAX {
                    let message = format!("{USERS_MAX} users have credentials, and more cannot have any.");
                    return Err(Refusal::new(ErrorCode::POLICY_VIOLATION, message));
                }
                user_count += 1;
            }
            records.push(record);
            Ok(())
        });
        let (error_code, error_message) = super::code_and_message(outcome);
        answer.push(AlterUserScramCredentialsResult { user: user.to_owned(), error_code, error_message });
    }
    Decision { records, answer }
}

/// What becomes of each user that a request has named so far.
#[derive(Default)]
struct Users<'a> {
    outcomes: Vec<(&'a str, Result<MetadataRecord, Refusal>)>,
    by_name: BTreeMap<&'a str, usize>,
}

impl<'a> Users<'a> {
    /// A user that is named twice is not altered. The first refusal stays.
    fn add(&mut self, name: &'a str, change: impl FnOnce() -> Result<MetadataRecord, Refusal>) {
        match self.by_name.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(self.outcomes.len());
                self.outcomes.push((name, change()));
            }
            Entry::Occupied(entry) => {
                let outcome = &mut self.outcomes[*entry.get()].1;
                if outcome.is_ok() {
                    let message = "A user credential cannot be altered twice in the same request";
                    *outcome = Err(Refusal::new(ErrorCode::DUPLICATE_RESOURCE, message));
                }
            }
        }
    }
}

fn delete(image: &MetadataImage, deletion: &ScramCredentialDeletion) -> Result<MetadataRecord, Refusal> {
    let mechanism = check(&deletion.name, deletion.mechanism)?;
    if image.scram().get(&deletion.name, mechanism).is_none() {
        let message = "Attempt to delete a user credential that does not exist";
        return Err(Refusal::new(ErrorCode::RESOURCE_NOT_FOUND, message));
    }
    Ok(RemoveUserScramCredentialRecord { name: deletion.name.clone(), mechanism: deletion.mechanism }.into())
}

fn upsert(upsertion: &ScramKeysUpsertion) -> Result<MetadataRecord, Refusal> {
    let mechanism = check(&upsertion.name, upsertion.mechanism)?;
    if upsertion.iterations < ITERATIONS_MIN {
        return Err(unacceptable("Too few iterations"));
    }
    if upsertion.iterations > ITERATIONS_MAX {
        return Err(unacceptable("Too many iterations"));
    }
    if upsertion.name.len() > NAME_BYTES_MAX {
        return Err(unacceptable(format!("A user's name has at most {NAME_BYTES_MAX} bytes")));
    }
    if upsertion.salt.is_empty() || upsertion.salt.len() > SALT_BYTES_MAX {
        return Err(unacceptable(format!("A salt has from 1 to {SALT_BYTES_MAX} bytes")));
    }
    let keys = [&upsertion.stored_key, &upsertion.server_key];
    if keys.iter().any(|key| key.0.len() != mechanism.key_bytes()) {
        return Err(unacceptable("There is no key in the credential"));
    }
    let record = UserScramCredentialRecord {
        name: upsertion.name.clone(),
        mechanism: upsertion.mechanism,
        salt: upsertion.salt.clone(),
        stored_key: upsertion.stored_key.clone(),
        server_key: upsertion.server_key.clone(),
        iterations: upsertion.iterations,
    };
    Ok(record.into())
}

fn check(name: &str, mechanism: i8) -> Result<ScramMechanism, Refusal> {
    if name.is_empty() {
        return Err(unacceptable("Username must not be empty"));
    }
    let unknown = || Refusal::new(ErrorCode::UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism");
    ScramMechanism::from_id(mechanism).ok_or_else(unknown)
}

fn unacceptable(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::UNACCEPTABLE_CREDENTIAL, message)
}

/// The mechanisms and iterations of users: of those that are named, once each, or of all where none is.
pub fn describe(image: &MetadataImage, users: Option<&[UserName]>) -> Vec<DescribeUserScramCredentialsResult> {
    let credentials = image.scram();
    let described = |user: &str| DescribeUserScramCredentialsResult {
        user: user.to_owned(),
        credential_infos: credentials.of_user(user).into_iter().flatten().map(info).collect(),
        ..Default::default()
    };
    let named = match users {
        None | Some([]) => return credentials.users().map(described).collect(),
        Some(named) => named,
    };
    let mut mentions: BTreeMap<&str, usize> = BTreeMap::new();
    named.iter().for_each(|user| *mentions.entry(&user.name).or_default() += 1);
    // Each is answered where it is named first.
    let once = named.iter().filter_map(|user| Some((user.name.as_str(), mentions.remove(&*user.name)?)));
    let answer = once.map(|(user, mentions)| {
        let refusal = if mentions > 1 {
            let words = "Cannot describe SCRAM credentials for the same user twice in a single request: ";
            Refusal::new(ErrorCode::DUPLICATE_RESOURCE, format!("{words}{user}"))
        } else if credentials.of_user(user).is_none() {
            let words = "Attempt to describe a user credential that does not exist: ";
            Refusal::new(ErrorCode::RESOURCE_NOT_FOUND, format!("{words}{user}"))
        } else {
            return described(user);
        };
        DescribeUserScramCredentialsResult {
            user: user.to_owned(),
            error_code: refusal.code,
            error_message: refusal.message,
            ..Default::default()
        }
    });
    answer.collect()
}

fn info((mechanism, credential): (&ScramMechanism, &ScramCredential)) -> CredentialInfo {
    CredentialInfo { mechanism: *mechanism as i8, iterations: credential.iterations }
}

#[cfg(test)]
mod tests {
    use wire::Secret;

    use super::super::tests::{applied, on};
    use super::*;

    fn upsertion(name: &str, mechanism: i8) -> ScramKeysUpsertion {
        let key = Secret(vec![mechanism as u8; if mechanism == 2 { 64 } else { 32 }].into());
        ScramKeysUpsertion {
            name: name.to_owned(),
            mechanism,
            iterations: 4096,
            salt: vec![1; 16].into(),
            stored_key: key.clone(),
            server_key: key,
        }
    }

    fn deletion(name: &str, mechanism: i8) -> ScramCredentialDeletion {
        ScramCredentialDeletion { name: name.to_owned(), mechanism }
    }

    /// Alters, and says the code and the message of each user.
    fn ask(
        image: &mut MetadataImage,
        deletions: &[ScramCredentialDeletion],
        upsertions: &[ScramKeysUpsertion],
    ) -> Vec<(String, i16, String)> {
        let request = AlterScramKeysRequest { deletions: deletions.to_vec(), upsertions: upsertions.to_vec() };
        let decision = on(image, |context| alter(context, &request));
        *image = applied(image, &decision.records);
        let told = decision.answer.into_iter();
        told.map(|told| (told.user, told.error_code.0, told.error_message.unwrap_or_default())).collect()
    }

    fn codes(told: &[(String, i16, String)]) -> Vec<(&str, i16)> {
        told.iter().map(|(user, code, _)| (user.as_str(), *code)).collect()
    }

    #[test]
    fn credentials_are_made_replaced_and_deleted() {
        let mut image = MetadataImage::default();
        let told = ask(&mut image, &[], &[upsertion("a", 1), upsertion("b", 2)]);
        assert_eq!(codes(&told), [("a", 0), ("b", 0)]);
        let more = ScramKeysUpsertion { iterations: 16384, ..upsertion("a", 1) };
        let told = ask(&mut image, &[deletion("b", 2)], &[more]);
        assert_eq!(codes(&told), [("b", 0), ("a", 0)]);
        assert_eq!(image.scram().get("a", ScramMechanism::Sha256).unwrap().iterations, 16384);
        assert_eq!(image.scram().user_count(), 1);
    }

    #[test]
    fn refusals_by_table() {
        let mut image = MetadataImage::default();
        ask(&mut image, &[], &[upsertion("a", 1)]);
        let before = image.clone();
        let with = |change: fn(&mut ScramKeysUpsertion)| {
            let mut changed = upsertion("a", 1);
            change(&mut changed);
            changed
        };
        for (upsertion, code, message) in [
            (upsertion("", 9), 93, "Username must not be empty"),
            (upsertion("a", 0), 33, "Unknown SCRAM mechanism"),
            (upsertion("a", 3), 33, "Unknown SCRAM mechanism"),
            (with(|it| it.iterations = 4095), 93, "Too few iterations"),
            (with(|it| it.iterations = 16385), 93, "Too many iterations"),
            (with(|it| it.name = "x".repeat(1025)), 93, "A user's name has at most 1024 bytes"),
            (with(|it| it.salt = Vec::new().into()), 93, "A salt has from 1 to 256 bytes"),
            (with(|it| it.salt = vec![1; 257].into()), 93, "A salt has from 1 to 256 bytes"),
            (with(|it| it.stored_key = Secret::default()), 93, "There is no key in the credential"),
            (with(|it| it.server_key = Secret(vec![1; 64].into())), 93, "There is no key in the credential"),
        ] {
            let name = upsertion.name.clone();
            assert_eq!(ask(&mut image, &[], &[upsertion]), [(name, code, message.to_owned())]);
        }
        let missing = "Attempt to delete a user credential that does not exist";
        for (name, mechanism, code, message) in [
            ("", 1, 93, "Username must not be empty"),
            ("a", 7, 33, "Unknown SCRAM mechanism"),
            ("a", 2, 91, missing),
            ("b", 1, 91, missing),
        ] {
            let told = ask(&mut image, &[deletion(name, mechanism)], &[]);
            assert_eq!(told, [(name.to_owned(), code, message.to_owned())]);
        }
        assert_eq!(image.scram(), before.scram());
    }

    #[test]
    fn a_user_is_altered_once_in_a_request() {
        let mut image = MetadataImage::default();
        ask(&mut image, &[], &["a", "b", "c"].map(|user| upsertion(user, 1)));
        let before = image.clone();
        let deletions = [deletion("a", 1), deletion("a", 1), deletion("b", 1), deletion("e", 1)];
        let told = ask(&mut image, &deletions, &["b", "d", "d", "d", "e"].map(|user| upsertion(user, 2)));
        // The first refusal of a user stays.
        assert_eq!(codes(&told), [("a", 92), ("b", 92), ("e", 91), ("d", 92)]);
        assert_eq!(told[0].2, "A user credential cannot be altered twice in the same request");
        assert_eq!(image.scram(), before.scram());
        // One that is refused does not touch the others.
        let told = ask(&mut image, &[deletion("x", 1)], &[upsertion("a", 2)]);
        assert_eq!(codes(&told), [("x", 91), ("a", 0)]);
        assert_eq!(image.scram().of_user("a").unwrap().len(), 2);
    }

    #[test]
    fn users_and_changes_at_once_are_bounded() {
        let mut image = MetadataImage::default();
        let many = |first: usize, count: usize| -> Vec<_> {
            (first..first + count).map(|n| upsertion(&format!("u{n}"), 1)).collect()
        };
        let refused = |told: &[(String, i16, String)]| told.iter().filter(|(_, code, _)| *code == 44).count();
        assert_eq!(refused(&ask(&mut image, &[], &many(0, RECORDS_MAX + 2))), 2);
        for first in (RECORDS_MAX..USERS_MAX).step_by(RECORDS_MAX) {
            assert_eq!(refused(&ask(&mut image, &[], &many(first, RECORDS_MAX))), 0);
        }
        let told = ask(&mut image, &[], &[upsertion("one too many", 1), upsertion("u7", 2)]);
        assert_eq!(codes(&told), [("one too many", 44), ("u7", 0)]);
        ask(&mut image, &[deletion("u8", 1)], &[]);
        assert_eq!(refused(&ask(&mut image, &[], &[upsertion("one too many", 1)])), 0, "a place is free again");
    }

    #[test]
    fn described_are_all_users_or_those_that_are_named() {
        let mut image = MetadataImage::default();
        ask(&mut image, &[], &[upsertion("b", 2), upsertion("a", 2)]);
        ask(&mut image, &[], &[upsertion("a", 1)]);
        let described = |names: Option<&[&str]>| {
            let name = |name: &&str| UserName { name: (*name).to_owned() };
            let users: Option<Vec<_>> = names.map(|names| names.iter().map(name).collect());
            let all = describe(&image, users.as_deref()).into_iter();
            let infos = |infos: Vec<CredentialInfo>| infos.iter().map(|info| info.mechanism).collect::<Vec<_>>();
            all.map(|one| (one.user, one.error_code.0, infos(one.credential_infos))).collect::<Vec<_>>()
        };
        let all = [("a".to_owned(), 0, vec![1, 2]), ("b".to_owned(), 0, vec![2])];
        assert_eq!(described(None), all);
        assert_eq!(described(Some(&[])), all);
        let told = described(Some(&["b", "c", "a", "d", "a", "d"]));
        let told: Vec<_> = told.iter().map(|(user, code, infos)| (user.as_str(), *code, infos.len())).collect();
        assert_eq!(told, [("b", 0, 1), ("c", 91, 0), ("a", 92, 0), ("d", 92, 0)]);
        let missing = describe(&image, Some(&[UserName { name: "c".to_owned() }])).remove(0);
        let message = "Attempt to describe a user credential that does not exist: c";
        assert_eq!(missing.error_message.as_deref(), Some(message));
    }
}
