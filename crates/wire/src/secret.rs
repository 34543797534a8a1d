//! Bytes that logs must not show.

use std::fmt;

use bytes::Bytes;

use crate::codec::sample::{Sample, Sampler};
use crate::codec::{Reader, Result, Wire, Writer};

/// Bytes that stand in for a password, or with which one can be guessed. In a message they are like any others, but its
/// Debug does not show them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub Bytes);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl Wire for Secret {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Bytes::read(r).map(Self)
    }

    fn write(&self, w: &mut Writer<'_>) {
        self.0.write(w);
    }
}

impl Sample for Secret {
    fn sample(s: &mut Sampler<'_>) -> Self {
        Self(Bytes::sample(s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::alter_user_scram_credentials::ScramCredentialUpsertion;
    use crate::state::metadata::UserScramCredentialRecord;

    #[test]
    fn secrets_are_not_shown() {
        let secret = Secret(Bytes::from_static(b"canary"));
        let upsertion = ScramCredentialUpsertion { salted_password: secret.clone(), ..Default::default() };
        let stored_key = secret.clone();
        let record = UserScramCredentialRecord { stored_key, server_key: secret, ..Default::default() };
        let shown = format!("{upsertion:?} {record:?}");
        assert!(!shown.contains("canary") && shown.matches("[hidden]").count() == 3, "{shown}");
    }
}
