//! All ACLs of a cluster, by what is asked of them: by their ids, by the resources that they are about, and by whom
//! they are for.
//!
//! A decision looks up the patterns that a name matches, and in each of them the entries for its principal and host: it
//! passes over no other ACL, however many there are. All parts are shared between images, so that one more
//! ACL copies none of the others.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use wire::Uuid;
use wire::state::metadata::AccessControlEntryRecord;

use super::filter::{AclFilter, PatternTypeFilter};
use super::name_map::NameMap;
use super::{Acl, PatternType, ResourcePattern, ResourceType, WILDCARD};
use crate::ordered_map::OrderedMap;

/// All ACLs of a cluster. Each is there once, and has an id.
#[derive(Clone, Debug, Default)]
pub struct Acls {
    by_id: OrderedMap<Uuid, Arc<Acl>>,
    by_type: [AclsOfType; ResourceType::VALUES.len()],
}

/// The ACLs of one type of resources.
#[derive(Clone, Debug, Default)]
pub(super) struct AclsOfType {
    /// By the names of literal patterns, but [`WILDCARD`].
    literal: NameMap<Entries>,
    /// By the names of prefixed patterns.
    prefixed: OrderedMap<Arc<str>, Entries>,
    /// Those that are about all resources of the type.
    wildcard: Entries,
    /// All of them.
    by_principal: OrderedMap<ByPrincipal, Uuid>,
}

/// The ACLs of one pattern, in the order of their entries, and their ids. A pattern without any is left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries(OrderedMap<Arc<Acl>, Uuid>);

/// An ACL, in the order of its principal and host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ByPrincipal(Arc<Acl>);

impl Ord for ByPrincipal {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.0.entry, &self.0.pattern).cmp(&(&other.0.entry, &other.0.pattern))
    }
}

impl PartialOrd for ByPrincipal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// All else follows from that.
impl PartialEq for Acls {
    fn eq(&self, other: &Self) -> bool {
        self.by_id == other.by_id
    }
}

/// ACLs whose ids are not known: somebody else keeps them. One that is there twice counts once.
impl FromIterator<Acl> for Acls {
    fn from_iter<I: IntoIterator<Item = Acl>>(all: I) -> Self {
        let mut acls = Self::default();
        for (at, acl) in all.into_iter().enumerate() {
            acls.insert(Uuid((at as u128).to_be_bytes()), acl);
        }
        acls
    }
}

impl Acls {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn contains(&self, acl: &Acl) -> bool {
        self.of_type(acl.pattern.resource_type).contains(acl)
    }

    /// In the order of their ids.
    pub(crate) fn to_records(&self) -> impl Iterator<Item = AccessControlEntryRecord> {
        self.by_id.iter().map(|(id, acl)| acl.to_record(*id))
    }

    /// ACLs among which are all that a filter matches, and not many others if it says a name or a principal.
    pub fn candidates<'a>(&'a self, filter: AclFilter<'a>) -> impl Iterator<Item = (&'a Arc<Acl>, Uuid)> {
        let of_types = ResourceType::VALUES.iter().zip(&self.by_type);
        let of_types = of_types.filter(move |(of, _)| filter.resource_type.is_none_or(|wanted| wanted == **of));
        of_types.flat_map(move |(_, of_type)| of_type.candidates(filter))
    }

    /// Adds an ACL, unless its id or the same ACL is there.
    pub(crate) fn insert(&mut self, id: Uuid, acl: Acl) -> bool {
        if self.by_id.get(&id).is_some() || self.contains(&acl) {
            return false;
        }
        let acl = Arc::new(acl);
        self.by_id.insert(id, Arc::clone(&acl));
        self.of_type_mut(acl.pattern.resource_type).insert(id, acl);
        true
    }

    /// Removes the ACL of an id, if there is one.
    pub(crate) fn remove(&mut self, id: Uuid) -> bool {
        let Some(acl) = self.by_id.remove(&id) else { return false };
        self.of_type_mut(acl.pattern.resource_type).remove(acl);
        true
    }

    pub(super) fn of_type(&self, resource_type: ResourceType) -> &AclsOfType {
        &self.by_type[place(resource_type)]
    }

    fn of_type_mut(&mut self, resource_type: ResourceType) -> &mut AclsOfType {
        &mut self.by_type[place(resource_type)]
    }
}

/// The types have numbers without gaps.
fn place(resource_type: ResourceType) -> usize {
    resource_type as usize - ResourceType::VALUES[0] as usize
}

impl AclsOfType {
    /// ACLs of the patterns that a resource matches: its own, those of prefixes from the longest on, those of all
    /// resources.
    pub(super) fn of_resource<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Entries> {
        let own = self.literal.get(name).into_iter();
        own.chain(self.of_prefixes(name)).chain(self.of_all())
    }

    /// ACLs of the prefixed patterns that a name begins with, the longest first.
    ///
    /// Each step looks for the last pattern up to what is left of the name in the order of names. If the name does not
    /// begin with that one, no pattern that it begins with is longer than what the two have in common.
    pub(super) fn of_prefixes<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Entries> {
        let mut left = name;
        std::iter::from_fn(move || {
            while !left.is_empty() {
                let (prefix, entries) = self.prefixed.last_up_to(left)?;
                let common = left.bytes().zip(prefix.bytes()).take_while(|(a, b)| a == b).count();
                if common == prefix.len() {
                    let last = left[..common].chars().next_back()?;
                    left = &left[..common - last.len_utf8()];
                    return Some(entries);
                }
                left = &left[..left.floor_char_boundary(common)];
            }
            None
        })
    }

    /// ACLs that are about all resources of the type, if there are any.
    pub(super) fn of_all(&self) -> Option<&Entries> {
        Some(&self.wildcard).filter(|entries| entries.0.len() > 0)
    }

    /// ACLs for a principal at an address, or at all hosts if that is `None`.
    pub(super) fn of_principal<'a>(
        &'a self,
        principal: &str,
        address: Option<IpAddr>,
    ) -> impl Iterator<Item = &'a Acl> {
        let range = self.by_principal.range_by(move |acl| acl.0.entry.compare(principal, address));
        range.map(|(acl, _)| &*acl.0)
    }

    fn entries(&self, pattern: &ResourcePattern) -> Option<&Entries> {
        match pattern.pattern_type {
            PatternType::Literal => self.of_name(&pattern.name),
            PatternType::Prefixed => self.prefixed.get(&*pattern.name),
        }
    }

    /// Of the literal pattern of a name.
    fn of_name(&self, name: &str) -> Option<&Entries> {
        if name == WILDCARD { self.of_all() } else { self.literal.get(name) }
    }

    fn contains(&self, acl: &Acl) -> bool {
        self.entries(&acl.pattern).is_some_and(|entries| entries.0.get(acl).is_some())
    }

    /// [`Acls::candidates`] of this type.
    fn candidates<'a>(&'a self, filter: AclFilter<'a>) -> Box<dyn Iterator<Item = (&'a Arc<Acl>, Uuid)> + Send + 'a> {
        match (filter.name, filter.principal) {
            (Some(name), _) if filter.pattern_type == PatternTypeFilter::Match => {
                Box::new(self.of_resource(name).flat_map(Entries::iter))
            }
            (Some(name), _) => {
                let literal = self.of_name(name).filter(|_| filter.pattern_type.includes(PatternType::Literal));
                let prefixed = self.prefixed.get(name).filter(|_| filter.pattern_type.includes(PatternType::Prefixed));
                Box::new(literal.into_iter().chain(prefixed).flat_map(Entries::iter))
            }
            (None, Some(principal)) => {
                let range = self.by_principal.range_by(move |acl| acl.0.entry.principal.as_str().cmp(principal));
                Box::new(range.map(|(acl, id)| (&acl.0, *id)))
            }
            (None, None) => Box::new(self.by_principal.iter().map(|(acl, id)| (&acl.0, *id))),
        }
    }

    fn insert(&mut self, id: Uuid, acl: Arc<Acl>) {
        let name = &acl.pattern.name;
        let entries = match acl.pattern.pattern_type {
            PatternType::Literal if acl.pattern.is_wildcard() => &mut self.wildcard,
            PatternType::Literal => self.literal.get_or_default(name),
            PatternType::Prefixed => self.prefixed.get_or_default(name),
        };
        entries.0.insert(Arc::clone(&acl), id);
        self.by_principal.insert(ByPrincipal(acl), id);
    }

    fn remove(&mut self, acl: Arc<Acl>) {
        let name = &acl.pattern.name;
        match acl.pattern.pattern_type {
            PatternType::Literal if acl.pattern.is_wildcard() => _ = self.wildcard.0.remove(&acl),
            PatternType::Literal => {
                let entries = self.literal.get_or_default(name);
                entries.0.remove(&acl);
                if entries.0.len() == 0 {
                    self.literal.remove(name);
                }
            }
            PatternType::Prefixed => {
                let entries = self.prefixed.get_or_default(name);
                entries.0.remove(&acl);
                if entries.0.len() == 0 {
                    self.prefixed.remove(&**name);
                }
            }
        }
        self.by_principal.remove(&ByPrincipal(acl));
    }
}

impl Entries {
    fn iter(&self) -> impl Iterator<Item = (&Arc<Acl>, Uuid)> {
        self.0.iter().map(|(acl, id)| (acl, *id))
    }

    /// Those for a principal at an address, or at all hosts if that is `None`.
    pub(super) fn of<'a>(&'a self, principal: &str, address: Option<IpAddr>) -> impl Iterator<Item = &'a Acl> {
        self.0.range_by(move |acl| acl.entry.compare(principal, address)).map(|(acl, _)| &**acl)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use storage::simdisk::Rng;

    use super::super::tests::{HOSTS, NAMES, PRINCIPALS, any_acl, id, pick};
    use super::super::{AclOperation, PermissionType};
    use super::*;

    fn any_filter(rng: &mut Rng) -> AclFilter<'static> {
        let pattern_types = [
            PatternTypeFilter::Any,
            PatternTypeFilter::Match,
            PatternTypeFilter::Exactly(PatternType::Literal),
            PatternTypeFilter::Exactly(PatternType::Prefixed),
        ];
        AclFilter {
            resource_type: Some(ResourceType::Topic).filter(|_| rng.percent(50)),
            pattern_type: pick(rng, &pattern_types),
            name: Some(pick(rng, &NAMES)).filter(|_| rng.percent(50)),
            principal: Some(pick(rng, &PRINCIPALS)).filter(|_| rng.percent(50)),
            host: Some(pick(rng, &HOSTS)).filter(|_| rng.percent(20)),
            operation: Some(AclOperation::Read).filter(|_| rng.percent(20)),
            permission_type: Some(PermissionType::Deny).filter(|_| rng.percent(20)),
        }
    }

    /// Every part of the index has the same ACLs.
    fn check(acls: &Acls, model: &BTreeMap<Uuid, Acl>, rng: &mut Rng) {
        assert!(acls.by_id.iter().map(|(id, acl)| (*id, &**acl)).eq(model.iter().map(|(id, acl)| (*id, acl))));
        for filter in (0..20).map(|_| any_filter(rng)) {
            let found = acls.candidates(filter).filter(|(acl, _)| filter.matches(acl));
            let found: BTreeMap<Uuid, &Acl> = found.map(|(acl, id)| (id, &**acl)).collect();
            let expected = model.iter().filter(|(_, acl)| filter.matches(acl)).map(|(id, acl)| (*id, acl)).collect();
            assert_eq!(found, expected, "{filter:?}");
        }
        for (of_type, name) in acls.by_type.iter().flat_map(|of_type| NAMES.map(|name| (of_type, name))) {
            let patterns = [of_type.literal.get(name), of_type.prefixed.get(name)];
            assert!(patterns.iter().flatten().all(|entries| entries.0.len() > 0), "a pattern without ACLs stays");
        }
    }

    #[test]
    fn all_parts_have_the_same_acls_and_copies_do_not_change() {
        let mut rng = Rng::new(1);
        let (mut acls, mut model) = (Acls::default(), BTreeMap::new());
        let mut copies = Vec::new();
        for step in 0..4000 {
            // It grows, and shrinks to nothing.
            if rng.percent(if step < 2000 { 70 } else { 20 }) {
                let (id, acl) = (id(rng.below(2000) as usize), any_acl(&mut rng));
                let is_new = !model.contains_key(&id) && !model.values().any(|other| *other == acl);
                assert_eq!(
                    (acls.contains(&acl), acls.insert(id, acl.clone())),
                    (model.values().any(|o| *o == acl), is_new)
                );
                if is_new {
                    model.insert(id, acl);
                }
            } else {
                let ids: Vec<Uuid> = model.keys().copied().chain([Uuid::ZERO]).collect();
                let id = pick(&mut rng, &ids);
                assert_eq!(acls.remove(id), model.remove(&id).is_some());
            }
            if step % 200 == 0 {
                copies.push((acls.clone(), model.clone()));
            }
        }
        copies.push((acls, model));
        for (acls, model) in copies {
            check(&acls, &model, &mut rng);
        }
    }

    #[test]
    fn prefixes_of_a_name_are_found_from_the_longest_on() {
        let mut rng = Rng::new(2);
        let letters = ["a", "b", "é", "ê", "€"];
        let word = |rng: &mut Rng| (0..=rng.below(6)).map(|_| pick(rng, &letters)).collect::<String>();
        for _ in 0..200 {
            let mut of_type = AclsOfType::default();
            let patterns: Vec<String> = (0..40).map(|_| word(&mut rng)).collect();
            for (at, pattern) in patterns.iter().enumerate() {
                let mut acl = any_acl(&mut rng);
                acl.pattern.name = pattern.as_str().into();
                let entries = of_type.prefixed.get_or_default(&pattern.as_str().into());
                entries.0.insert(Arc::new(acl), id(at));
            }
            for name in (0..40).map(|_| word(&mut rng)) {
                let found =
                    of_type.of_prefixes(&name).map(|entries| entries.iter().next().unwrap().0.pattern.name.to_string());
                let mut expected: Vec<String> =
                    patterns.iter().filter(|p| name.starts_with(p.as_str())).cloned().collect();
                expected.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
                expected.dedup();
                assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
            }
        }
    }
}
