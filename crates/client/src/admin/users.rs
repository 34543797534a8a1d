//! Users with SCRAM credentials (KIP-554). A password does not leave this process: brokers get it salted, and are to
//! keep the keys that follow from that.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use bytes::Bytes;
use ring::rand::{SecureRandom, SystemRandom};
use security::Mechanism;
use security::scram::{self, Hash};
use wire::api::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, ScramCredentialDeletion,
    ScramCredentialUpsertion,
};
use wire::api::describe_user_scram_credentials::{DescribeUserScramCredentialsRequest, UserName};
use wire::{ErrorCode, Secret};

use crate::{Client, ClientError};

const SALT_BYTES: usize = 24;

/// How a user proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScramMechanism {
    Sha256 = 1,
    Sha512 = 2,
}

impl ScramMechanism {
    fn from_id(id: i8) -> Option<Self> {
        [Self::Sha256, Self::Sha512].into_iter().find(|mechanism| *mechanism as i8 == id)
    }

    fn hash(self) -> Hash {
        match self {
            Self::Sha256 => Hash::Sha256,
            Self::Sha512 => Hash::Sha512,
        }
    }

    fn salted(self, password: &str, salt: &[u8], iterations: NonZeroU32) -> Secret {
        Secret(scram::salted_password(self.hash(), password, salt, iterations).expose().clone().into())
    }
}

impl fmt::Display for ScramMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Mechanism::Scram(self.hash()).name())
    }
}

/// The iterations of a user's credentials by their mechanisms.
pub type UserCredentials = BTreeMap<ScramMechanism, i32>;

impl Client {
    /// All users that have credentials.
    pub async fn list_users(&self) -> Result<BTreeMap<String, UserCredentials>, ClientError> {
        self.described_users(None).await
    }

    /// The credentials of a user; none where there is no such user.
    pub async fn describe_user(&self, user: &str) -> Result<UserCredentials, ClientError> {
        Ok(self.described_users(Some(user)).await?.remove(user).unwrap_or_default())
    }

    async fn described_users(&self, user: Option<&str>) -> Result<BTreeMap<String, UserCredentials>, ClientError> {
        let users = user.map(|user| vec![UserName { name: user.to_owned() }]);
        let response = self.send(&DescribeUserScramCredentialsRequest { users }).await?;
        let subject = || "the users".to_owned();
        ClientError::check(subject, response.error_code, response.error_message.as_deref())?;
        let mut described = BTreeMap::new();
        for result in response.results {
            if result.error_code == ErrorCode::RESOURCE_NOT_FOUND {
                continue;
            }
            let subject = || format!("user {}", result.user);
            ClientError::check(subject, result.error_code, result.error_message.as_deref())?;
            let infos = result.credential_infos.into_iter();
            let infos = infos.filter_map(|info| Some((ScramMechanism::from_id(info.mechanism)?, info.iterations)));
            described.insert(result.user, infos.collect());
        }
        Ok(described)
    }

    /// Gives a user a password, in place of the one that it has with this mechanism. Takes some milliseconds of the
    /// caller's thread.
    pub async fn set_user_password(
        &self,
        user: &str,
        mechanism: ScramMechanism,
        password: &str,
        iterations: NonZeroU32,
    ) -> Result<(), ClientError> {
        let mut salt = [0; SALT_BYTES];
        if SystemRandom::new().fill(&mut salt).is_err() {
            return Err(ClientError::NoRandomness);
        }
        let upsertion = ScramCredentialUpsertion {
            name: user.to_owned(),
            mechanism: mechanism as i8,
            iterations: i32::try_from(iterations.get()).unwrap_or(i32::MAX),
            salt: Bytes::copy_from_slice(&salt),
            salted_password: mechanism.salted(password, &salt, iterations),
        };
        let request = AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() };
        self.alter_user(&request, || format!("cannot set the password of user {user}")).await
    }

    /// Deletes the credential of one mechanism; with its last one a user is gone.
    pub async fn delete_user_password(&self, user: &str, mechanism: ScramMechanism) -> Result<(), ClientError> {
        let deletion = ScramCredentialDeletion { name: user.to_owned(), mechanism: mechanism as i8 };
        let request = AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
        self.alter_user(&request, || format!("cannot delete user {user}")).await
    }

    async fn alter_user(
        &self,
        request: &AlterUserScramCredentialsRequest,
        subject: impl Fn() -> String,
    ) -> Result<(), ClientError> {
        let code = |response: &AlterUserScramCredentialsResponse| {
            response.results.first().map_or(ErrorCode::NONE, |result| result.error_code)
        };
        for result in self.send_to_controller(request, code).await?.results {
            ClientError::check(&subject, result.error_code, result.error_message.as_deref())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wire::api::alter_user_scram_credentials::AlterUserScramCredentialsResult;
    use wire::api::describe_user_scram_credentials::{
        CredentialInfo, DescribeUserScramCredentialsResponse, DescribeUserScramCredentialsResult,
    };

    use super::*;
    use crate::fake_cluster::FakeCluster;

    const VERSIONS: [(i16, i16); 2] = [(50, 0), (51, 0)];

    #[tokio::test]
    async fn a_user_that_is_not_there_has_no_credentials() {
        let cluster = FakeCluster::start(1, Vec::new(), &VERSIONS, |question| {
            let request = question.read::<DescribeUserScramCredentialsRequest>()?;
            let named = request.users.unwrap_or_default().pop();
            let is_missing = named.as_ref().is_some_and(|user| user.name != "a");
            let info = |mechanism| CredentialInfo { mechanism, iterations: 4096 };
            let result = DescribeUserScramCredentialsResult {
                user: named.map_or("a".to_owned(), |user| user.name),
                error_code: if is_missing { ErrorCode::RESOURCE_NOT_FOUND } else { ErrorCode::NONE },
                // A mechanism of later versions is nothing that can be told of.
                credential_infos: if is_missing { Vec::new() } else { vec![info(2), info(7)] },
                ..Default::default()
            };
            let response = DescribeUserScramCredentialsResponse { results: vec![result], ..Default::default() };
            question.answer::<DescribeUserScramCredentialsRequest>(&response)
        });
        let client = cluster.await.client();
        let credentials = UserCredentials::from([(ScramMechanism::Sha512, 4096)]);
        assert_eq!(client.list_users().await, Ok([("a".to_owned(), credentials.clone())].into()));
        assert_eq!(client.describe_user("a").await, Ok(credentials));
        assert_eq!(client.describe_user("b").await, Ok(UserCredentials::new()));
    }

    #[tokio::test]
    async fn brokers_get_a_password_salted() {
        let cluster = FakeCluster::start(1, Vec::new(), &VERSIONS, |question| {
            let request = question.read::<AlterUserScramCredentialsRequest>()?;
            let [upsertion] = &request.upsertions[..] else { panic!("{request:?}") };
            let mechanism = ScramMechanism::from_id(upsertion.mechanism).unwrap();
            let salted = mechanism.salted("pencil", &upsertion.salt, NonZeroU32::new(5000).unwrap());
            let is_right = (upsertion.iterations, &upsertion.salted_password) == (5000, &salted)
                && upsertion.salt.len() == SALT_BYTES
                && upsertion.salt.iter().any(|byte| *byte != 0);
            let result = AlterUserScramCredentialsResult {
                user: upsertion.name.clone(),
                error_code: if is_right { ErrorCode::NONE } else { ErrorCode::UNACCEPTABLE_CREDENTIAL },
                error_message: None,
            };
            let response = AlterUserScramCredentialsResponse { results: vec![result], ..Default::default() };
            question.answer::<AlterUserScramCredentialsRequest>(&response)
        });
        let client = cluster.await.client();
        let iterations = NonZeroU32::new(5000).unwrap();
        for mechanism in [ScramMechanism::Sha256, ScramMechanism::Sha512] {
            assert_eq!(client.set_user_password("a", mechanism, "pencil", iterations).await, Ok(()));
            let error = client.set_user_password("a", mechanism, "pen", iterations).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::UNACCEPTABLE_CREDENTIAL));
        }
    }
}
