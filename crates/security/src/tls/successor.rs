//! Whether a certificate may take the place of another while a listener serves (KIP-226, `SslFactory`).
//!
//! Behaviour:
//! - It is of the same subject, and has all other names of the one before, unless `ssl.allow.dn.changes` and
//!   `ssl.allow.san.changes` let it be another's. It is not over.
//! - Among nodes those that have either take those that have the other, by the truststore of either: not all of them
//!   get the new one at once.

use std::time::Duration;

use rustls::pki_types::UnixTime;

use super::ServerTls;

/// What may be otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowedChanges {
    pub subject: bool,
    pub alternative_names: bool,
}

/// Why it may not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuccessorError {
    #[error("the certificate is over")]
    Expired,
    #[error("the certificate is of {new:?}, and was of {old:?} (ssl.allow.dn.changes)")]
    Subject { old: String, new: String },
    #[error("the certificate lacks a subjectAltName of the one before (ssl.allow.san.changes)")]
    AlternativeNames,
    #[error("nodes with the old certificate and nodes with the new one do not take each other: {0}")]
    Untrusted(String),
}

impl ServerTls {
    /// Whether the files were the same.
    pub fn is_of_same_files(&self, other: &Self) -> bool {
        self.digest.as_ref() == other.digest.as_ref()
    }

    pub fn check_successor(&self, next: &Self, allowed: AllowedChanges, now_ms: i64) -> Result<(), SuccessorError> {
        if next.not_after_ms < now_ms {
            return Err(SuccessorError::Expired);
        }
        if !allowed.subject && self.subject != next.subject {
            return Err(SuccessorError::Subject { old: self.subject.clone(), new: next.subject.clone() });
        }
        if !allowed.alternative_names && !self.alternative_names.is_subset(&next.alternative_names) {
            return Err(SuccessorError::AlternativeNames);
        }
        Ok(())
    }

    /// The same among nodes, who show their certificates to each other.
    pub fn check_successor_among_nodes(&self, next: &Self, now_ms: i64) -> Result<(), SuccessorError> {
        let now = UnixTime::since_unix_epoch(Duration::from_millis(now_ms.unsigned_abs()));
        for (verifying, shown) in [(next, next), (self, next), (next, self)] {
            let (Some(verifier), Some((own, others))) = (&verifying.verifier, shown.chain.split_first()) else {
                continue;
            };
            verifier
                .verify_client_cert(own, others, now)
                .map_err(|error| SuccessorError::Untrusted(super::describe(&error)))?;
        }
        Ok(())
    }
}
