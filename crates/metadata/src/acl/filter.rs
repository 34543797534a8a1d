//! Which ACLs a request is about: a filter, as DescribeAcls and DeleteAcls have it (`AclBindingFilter`).

use wire::api::delete_acls::DeleteAclsFilter;
use wire::api::describe_acls::DescribeAclsRequest;

use super::{Acl, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType, WILDCARD};

/// The number of any type, operation and so on.
pub(super) const ANY: i8 = 1;
/// The number of [`PatternTypeFilter::Match`].
pub(super) const MATCH: i8 = 2;

/// Selects ACLs: those that are as each part of it says. `None` is any.
#[derive(Clone, Copy, Debug)]
pub struct AclFilter<'a> {
    pub resource_type: Option<ResourceType>,
    pub pattern_type: PatternTypeFilter,
    pub name: Option<&'a str>,
    pub principal: Option<&'a str>,
    pub host: Option<&'a str>,
    pub operation: Option<AclOperation>,
    pub permission_type: Option<PermissionType>,
}

/// How the name of a filter is compared with that of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternTypeFilter {
    /// The same name, in patterns of all types.
    Any,
    /// All patterns that a resource of that name matches.
    Match,
    /// The same name, in patterns of this type.
    Exactly(PatternType),
}

/// A filter has a number that stands for nothing here. Its text is Kafka's (`AclControlManager.validateFilter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownFilter {
    #[error("Unknown patternFilter.")]
    Pattern,
    #[error("Unknown entryFilter.")]
    Entry,
}

impl<'a> TryFrom<&'a DeleteAclsFilter> for AclFilter<'a> {
    type Error = UnknownFilter;

    fn try_from(filter: &'a DeleteAclsFilter) -> Result<Self, UnknownFilter> {
        Ok(Self {
            resource_type: unless_any(filter.resource_type_filter, ResourceType::from_id, UnknownFilter::Pattern)?,
            pattern_type: PatternTypeFilter::from_id(filter.pattern_type_filter)?,
            name: filter.resource_name_filter.as_deref(),
            principal: filter.principal_filter.as_deref(),
            host: filter.host_filter.as_deref(),
            operation: unless_any(filter.operation, AclOperation::from_id, UnknownFilter::Entry)?,
            permission_type: unless_any(filter.permission_type, PermissionType::from_id, UnknownFilter::Entry)?,
        })
    }
}

impl<'a> TryFrom<&'a DescribeAclsRequest> for AclFilter<'a> {
    type Error = UnknownFilter;

    fn try_from(request: &'a DescribeAclsRequest) -> Result<Self, UnknownFilter> {
        Ok(Self {
            resource_type: unless_any(request.resource_type_filter, ResourceType::from_id, UnknownFilter::Pattern)?,
            pattern_type: PatternTypeFilter::from_id(request.pattern_type_filter)?,
            name: request.resource_name_filter.as_deref(),
            principal: request.principal_filter.as_deref(),
            host: request.host_filter.as_deref(),
            operation: unless_any(request.operation, AclOperation::from_id, UnknownFilter::Entry)?,
            permission_type: unless_any(request.permission_type, PermissionType::from_id, UnknownFilter::Entry)?,
        })
    }
}

fn unless_any<T>(
    id: i8,
    from_id: impl Fn(i8) -> Option<T>,
    unknown: UnknownFilter,
) -> Result<Option<T>, UnknownFilter> {
    if id == ANY { Ok(None) } else { from_id(id).map(Some).ok_or(unknown) }
}

impl PatternTypeFilter {
    fn from_id(id: i8) -> Result<Self, UnknownFilter> {
        match id {
            ANY => Ok(Self::Any),
            MATCH => Ok(Self::Match),
            id => PatternType::from_id(id).map(Self::Exactly).ok_or(UnknownFilter::Pattern),
        }
    }

    /// Whether it has patterns of a type.
    pub(super) fn includes(self, pattern_type: PatternType) -> bool {
        match self {
            Self::Any | Self::Match => true,
            Self::Exactly(only) => only == pattern_type,
        }
    }
}

impl AclFilter<'_> {
    pub fn matches(&self, acl: &Acl) -> bool {
        let entry = &acl.entry;
        self.matches_pattern(&acl.pattern)
            && self.principal.is_none_or(|principal| principal == entry.principal)
            && self.host.is_none_or(|host| host == entry.host.as_str())
            && self.operation.is_none_or(|operation| operation == entry.operation)
            && self.permission_type.is_none_or(|permission_type| permission_type == entry.permission_type)
    }

    /// `ResourcePatternFilter.matches`.
    fn matches_pattern(&self, pattern: &ResourcePattern) -> bool {
        let has_type = self.resource_type.is_none_or(|resource_type| resource_type == pattern.resource_type);
        has_type
            && self.pattern_type.includes(pattern.pattern_type)
            && self.name.is_none_or(|name| match (self.pattern_type, pattern.pattern_type) {
                (PatternTypeFilter::Match, PatternType::Literal) => [name, WILDCARD].contains(&&*pattern.name),
                (PatternTypeFilter::Match, PatternType::Prefixed) => name.starts_with(&*pattern.name),
                _ => name == &*pattern.name,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    fn filter(name: Option<&str>, pattern_type_filter: i8) -> DeleteAclsFilter {
        DeleteAclsFilter {
            resource_type_filter: ResourceType::Topic as i8,
            resource_name_filter: name.map(str::to_owned),
            pattern_type_filter,
            operation: ANY,
            permission_type: ANY,
            ..Default::default()
        }
    }

    #[test]
    fn patterns_are_matched_as_by_kafka() {
        let (literal, prefixed) = (PatternType::Literal as i8, PatternType::Prefixed as i8);
        let patterns = [(3, "foo"), (3, "foobar"), (3, "*"), (4, "foo"), (4, "f"), (4, "*")];
        for (name, pattern_type, matched) in [
            (None, ANY, &patterns[..]),
            (None, MATCH, &patterns),
            (None, literal, &[(3, "foo"), (3, "foobar"), (3, "*")]),
            (None, prefixed, &[(4, "foo"), (4, "f"), (4, "*")]),
            (Some("foo"), ANY, &[(3, "foo"), (4, "foo")]),
            (Some("foo"), literal, &[(3, "foo")]),
            (Some("foo"), prefixed, &[(4, "foo")]),
            (Some("foobar"), MATCH, &[(3, "foobar"), (3, "*"), (4, "foo"), (4, "f")]),
            (Some("*"), literal, &[(3, "*")]),
            (Some("*"), MATCH, &[(3, "*"), (4, "*")]),
            (Some("nope"), MATCH, &[(3, "*")]),
            (Some("nope"), ANY, &[]),
        ] {
            let request = filter(name, pattern_type);
            let filter = AclFilter::try_from(&request).unwrap();
            let matches = |(pattern_type, name): &(i8, &str)| {
                let pattern_type = PatternType::from_id(*pattern_type).unwrap();
                let (read, allow) = (AclOperation::Read, PermissionType::Allow);
                let of = |of| Acl::from_record(&record(of, pattern_type, name, "User:a", read, allow)).unwrap();
                assert!(!filter.matches(&of(ResourceType::Group)));
                filter.matches(&of(ResourceType::Topic))
            };
            let found: Vec<_> = patterns.iter().filter(|pattern| matches(pattern)).copied().collect();
            assert_eq!(found, matched, "{name:?} {pattern_type}");
        }
    }

    #[test]
    fn each_part_of_an_entry_may_be_said() {
        let (topic, literal) = (ResourceType::Topic, PatternType::Literal);
        let acl = record(topic, literal, "t", "User:a", AclOperation::Read, PermissionType::Allow);
        let acl = Acl::from_record(&acl).unwrap();
        let matches = |change: &dyn Fn(&mut DeleteAclsFilter)| {
            let mut filter = filter(None, ANY);
            change(&mut filter);
            AclFilter::try_from(&filter).unwrap().matches(&acl)
        };
        assert!(matches(&|_| ()));
        assert!(matches(&|filter| filter.resource_type_filter = ANY));
        assert!(matches(&|filter| filter.principal_filter = Some("User:a".into())));
        assert!(!matches(&|filter| filter.principal_filter = Some("User:*".into())));
        assert!(matches(&|filter| filter.host_filter = Some("*".into())));
        assert!(!matches(&|filter| filter.host_filter = Some("10.0.0.1".into())));
        assert!(matches(&|filter| filter.operation = AclOperation::Read as i8));
        assert!(!matches(&|filter| filter.operation = AclOperation::All as i8));
        assert!(matches(&|filter| filter.permission_type = PermissionType::Allow as i8));
        assert!(!matches(&|filter| filter.permission_type = PermissionType::Deny as i8));
    }

    #[test]
    fn numbers_that_stand_for_nothing_are_errors() {
        let parse = |filter: DeleteAclsFilter| AclFilter::try_from(&filter).err();
        let good = || filter(None, ANY);
        for unknown in [0, -1, 77] {
            let parts = [
                DeleteAclsFilter { resource_type_filter: unknown, ..good() },
                DeleteAclsFilter { pattern_type_filter: unknown, ..good() },
            ];
            assert_eq!(parts.map(parse), [Some(UnknownFilter::Pattern); 2]);
            let parts = [
                DeleteAclsFilter { operation: unknown, ..good() },
                DeleteAclsFilter { permission_type: unknown, ..good() },
            ];
            assert_eq!(parts.map(parse), [Some(UnknownFilter::Entry); 2]);
        }
        assert_eq!(parse(good()), None);
    }
}
