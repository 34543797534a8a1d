//! Who is logged in: with the console's password, or as a user of a cluster, or both.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use crate::user_session::UserSession;

pub(super) const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// The oldest gives way to one more.
const SESSIONS_MAX: usize = 1000;
/// Those with users of clusters, each of which may have connections: the same.
const SESSIONS_OF_USERS_MAX: usize = 200;

type Digest = [u8; 32];

pub(super) fn hash(bytes: &[u8]) -> Digest {
    let mut hashed = [0; 32];
    hashed.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hashed
}

/// What somebody has proved.
#[derive(Clone)]
struct Session {
    began: Instant,
    /// Of the console.
    has_password: bool,
    /// One for each cluster at most.
    users: Vec<Arc<UserSession>>,
}

impl Session {
    fn is_over(&self) -> bool {
        self.began.elapsed() >= SESSION_LIFETIME
    }
}

/// By the digest of their token, or of what a program sends with each request.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<Digest, Session>>);

impl Sessions {
    /// A new token, in place of the one that somebody has, for all that the two have proved.
    pub(super) fn begin(&self, before: Option<&str>, user: Option<UserSession>) -> Option<String> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.0.lock();
        let before = before.and_then(|token| sessions.remove(&hash(token.as_bytes())));
        let before = before.filter(|session| !session.is_over());
        let (had_password, mut users) = before.map_or_else(Default::default, |of| (of.has_password, of.users));
        let has_password = had_password || user.is_none();
        if let Some(user) = user {
            users.retain(|known| known.cluster != user.cluster);
            users.push(Arc::new(user));
        }
        insert(&mut sessions, hash(token.as_bytes()), Session { began: Instant::now(), has_password, users });
        Some(token)
    }

    /// A user that logs in with each request: what it sends is known for as long as a session lasts.
    pub(super) fn begin_for(&self, sent: &str, user: UserSession) -> Arc<UserSession> {
        let user = Arc::new(user);
        let session = Session { began: Instant::now(), has_password: false, users: vec![Arc::clone(&user)] };
        insert(&mut self.0.lock(), hash(sent.as_bytes()), session);
        user
    }

    pub(super) fn has_password(&self, token: &str) -> bool {
        let sessions = self.0.lock();
        sessions.get(&hash(token.as_bytes())).is_some_and(|session| session.has_password && !session.is_over())
    }

    pub(super) fn user_of(&self, token: &str, cluster: &str) -> Option<Arc<UserSession>> {
        let sessions = self.0.lock();
        let session = sessions.get(&hash(token.as_bytes())).filter(|session| !session.is_over())?;
        session.users.iter().find(|user| user.cluster == cluster).cloned()
    }

    pub(super) fn end(&self, token: &str) {
        self.0.lock().remove(&hash(token.as_bytes()));
    }

    /// No user of this cluster is logged in any longer.
    pub(crate) fn forget(&self, cluster: &str) {
        self.0.lock().values_mut().for_each(|session| session.users.retain(|user| user.cluster != cluster));
    }

    /// Ends sessions whose time is over, and closes connections that nobody uses.
    pub(crate) fn tidy(&self) {
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| !session.is_over());
        sessions.values().flat_map(|session| &session.users).for_each(|user| user.close_idle());
    }
}

fn insert(sessions: &mut HashMap<Digest, Session>, key: Digest, session: Session) {
    sessions.retain(|_, session| !session.is_over());
    let has_users = !session.users.is_empty();
    sessions.insert(key, session);
    let remove_oldest = |sessions: &mut HashMap<Digest, Session>, max: usize, counts: fn(&Session) -> bool| {
        let counted = || sessions.iter().filter(|(_, session)| counts(session));
        if counted().count() > max
            && let Some(oldest) = counted().min_by_key(|(_, session)| session.began).map(|(key, _)| *key)
        {
            sessions.remove(&oldest);
        }
    };
    if has_users {
        remove_oldest(sessions, SESSIONS_OF_USERS_MAX, |session| !session.users.is_empty());
    }
    remove_oldest(sessions, SESSIONS_MAX, |_| true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_until_it_is_ended_and_the_oldest_give_way() {
        let sessions = Sessions::default();
        let first = sessions.begin(None, None).unwrap();
        assert!(sessions.has_password(&first));
        let tokens: Vec<_> = (0..SESSIONS_MAX).map(|_| sessions.begin(None, None).unwrap()).collect();
        assert!(!sessions.has_password(&first));
        assert!(tokens.iter().all(|token| sessions.has_password(token)));
        sessions.end(&tokens[3]);
        assert!(!sessions.has_password(&tokens[3]) && !sessions.has_password(""));
    }

    #[tokio::test(start_paused = true)]
    async fn users_are_known_for_their_cluster_only_and_for_so_long() {
        let user = |cluster: &str| UserSession::for_test(cluster, "alice");
        let sessions = Sessions::default();
        let token = sessions.begin(None, Some(user("a"))).unwrap();
        assert!(sessions.user_of(&token, "a").is_some() && sessions.user_of(&token, "b").is_none());
        assert!(!sessions.has_password(&token), "a user does not know the console's password");
        // Logging in once more is another token, and the one before is worth nothing.
        let both = sessions.begin(Some(&token), Some(user("b"))).unwrap();
        assert!(sessions.user_of(&token, "a").is_none());
        assert!(["a", "b"].iter().all(|cluster| sessions.user_of(&both, cluster).is_some()));
        let end = sessions.user_of(&both, "a").unwrap().end();
        sessions.forget("a");
        assert!(sessions.user_of(&both, "a").is_none() && end.has_changed().is_err());
        tokio::time::advance(SESSION_LIFETIME).await;
        assert!(sessions.user_of(&both, "b").is_none());
        sessions.tidy();
        assert!(sessions.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_of_users_are_fewer_and_take_none_from_others() {
        let sessions = Sessions::default();
        let other = sessions.begin(None, None).unwrap();
        let mut tokens = Vec::new();
        for _ in 0..=SESSIONS_OF_USERS_MAX {
            tokens.push(sessions.begin(None, Some(UserSession::for_test("a", "alice"))).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let known = tokens.iter().filter(|token| sessions.user_of(token, "a").is_some()).count();
        assert_eq!((known, sessions.has_password(&other)), (SESSIONS_OF_USERS_MAX, true));
        assert!(sessions.user_of(&tokens[0], "a").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_program_sends_is_known_again() {
        let sessions = Sessions::default();
        sessions.begin_for("Basic x a", UserSession::for_test("a", "alice"));
        assert!(sessions.user_of("Basic x a", "a").is_some_and(|user| user.user == "alice"));
        assert!(sessions.user_of("Basic y a", "a").is_none() && !sessions.has_password("Basic x a"));
    }
}
