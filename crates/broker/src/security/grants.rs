//! What ACLs have allowed the client of a connection. It asks for the same with each request, and a decision takes
//! longer than to look up that it has been made.
//!
//! It counts as long as the ACLs are the same. What is denied is decided again each time: it has to be written down.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use metadata::acl::{AclOperation, Acls, ResourceType};
use parking_lot::Mutex;

use super::Principal;

/// Names that are remembered of a connection, and how long one may be: that of a topic may.
const NAMES_MAX: usize = 64;
const NAME_LENGTH_MAX: usize = 249;

/// Of one connection.
#[derive(Debug, Default)]
pub struct Grants(Mutex<Option<Remembered>>);

#[derive(Debug)]
struct Remembered {
    /// By which it was decided. Others cannot be in the same place as long as this is here, and it keeps none of them.
    acls: Weak<Acls>,
    principal: Principal,
    /// By the names of resources: a bit for each operation and type.
    allowed: HashMap<Box<str>, u128>,
}

impl Remembered {
    fn is_of(&self, acls: &Arc<Acls>, principal: &Principal) -> bool {
        std::ptr::eq(self.acls.as_ptr(), Arc::as_ptr(acls)) && self.principal == *principal
    }
}

/// Kafka's numbers of types are less than 8, and those of operations less than 16.
fn bit(operation: AclOperation, resource_type: ResourceType) -> u128 {
    1 << (16 * resource_type as u32 + operation as u32)
}

impl Grants {
    /// Whether a principal is known to be allowed an operation by these ACLs.
    pub fn has(
        &self,
        acls: &Arc<Acls>,
        principal: &Principal,
        operation: AclOperation,
        (resource_type, name): (ResourceType, &str),
    ) -> bool {
        let remembered = self.0.lock();
        let remembered = remembered.as_ref().filter(|remembered| remembered.is_of(acls, principal));
        let allowed = remembered.and_then(|remembered| remembered.allowed.get(name));
        allowed.is_some_and(|allowed| allowed & bit(operation, resource_type) != 0)
    }

    /// They allow it.
    pub fn remember(
        &self,
        acls: &Arc<Acls>,
        principal: &Principal,
        operation: AclOperation,
        (resource_type, name): (ResourceType, &str),
    ) {
        if name.len() > NAME_LENGTH_MAX {
            return;
        }
        let mut remembered = self.0.lock();
        let known = remembered.take().filter(|known| known.is_of(acls, principal));
        let new = || Remembered { acls: Arc::downgrade(acls), principal: principal.clone(), allowed: HashMap::new() };
        let known = remembered.insert(known.unwrap_or_else(new));
        if let Some(allowed) = known.allowed.get_mut(name) {
            *allowed |= bit(operation, resource_type);
            return;
        }
        if known.allowed.len() == NAMES_MAX {
            known.allowed.clear();
        }
        known.allowed.insert(name.into(), bit(operation, resource_type));
    }
}

#[cfg(test)]
mod tests {
    use super::AclOperation::{Describe, Read, Write};
    use super::ResourceType::{Group, Topic};
    use super::*;

    #[test]
    fn what_was_allowed_is_allowed_the_same_principal_by_the_same_acls() {
        let (grants, acls, alice) = (Grants::default(), Arc::new(Acls::default()), Principal::user("alice"));
        assert!(!grants.has(&acls, &alice, Write, (Topic, "t")));
        grants.remember(&acls, &alice, Write, (Topic, "t"));
        grants.remember(&acls, &alice, Read, (Topic, "t"));
        let others = [(Describe, Topic, "t"), (Write, Group, "t"), (Write, Topic, "t2"), (Write, Topic, "")];
        let check = |acls: &Arc<Acls>, principal: &str, is_allowed: bool| {
            let has = |operation, of, name| grants.has(acls, &Principal::user(principal), operation, (of, name));
            assert_eq!([has(Write, Topic, "t"), has(Read, Topic, "t")], [is_allowed; 2], "{principal}");
            assert!(!others.iter().any(|(operation, of, name)| has(*operation, *of, name)), "{principal}");
        };
        check(&acls, "alice", true);
        check(&acls, "bob", false);
        check(&Arc::new(Acls::default()), "alice", false);
        // What is remembered next is by the others alone.
        let newer = Arc::new(Acls::clone(&acls));
        grants.remember(&newer, &alice, Write, (Topic, "u"));
        check(&acls, "alice", false);
        check(&newer, "alice", false);
        assert!(grants.has(&newer, &alice, Write, (Topic, "u")));
    }

    /// There are no two ACLs in one place, one after the other, that could be mistaken for each other.
    #[test]
    fn acls_that_are_gone_are_not_kept_and_not_mistaken_for_others() {
        let (grants, alice) = (Grants::default(), Principal::user("alice"));
        for _ in 0..100 {
            let acls = Arc::new(Acls::default());
            assert!(!grants.has(&acls, &alice, Write, (Topic, "t")));
            grants.remember(&acls, &alice, Write, (Topic, "t"));
            assert_eq!(Arc::strong_count(&acls), 1);
        }
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let (grants, acls, alice) = (Grants::default(), Arc::new(Acls::default()), Principal::user("alice"));
        for n in 0..1_000 {
            let name = n.to_string();
            grants.remember(&acls, &alice, Write, (Topic, &name));
            assert!(grants.has(&acls, &alice, Write, (Topic, &name)), "{n}");
        }
        let long = "a".repeat(NAME_LENGTH_MAX + 1);
        grants.remember(&acls, &alice, Write, (Topic, &long));
        assert!(!grants.has(&acls, &alice, Write, (Topic, &long)));
        assert!(grants.0.lock().as_ref().unwrap().allowed.len() <= NAMES_MAX);
    }

    #[test]
    fn every_operation_on_every_type_is_one_of_its_own() {
        let all: std::collections::BTreeSet<u128> = ResourceType::VALUES
            .iter()
            .flat_map(|of| AclOperation::VALUES.iter().map(|operation| bit(*operation, *of)))
            .collect();
        assert_eq!(all.len(), ResourceType::VALUES.len() * AclOperation::VALUES.len());
    }
}
