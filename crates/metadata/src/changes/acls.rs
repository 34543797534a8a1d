//! Creating and deleting access control lists (`AclControlManager`).

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::api::create_acls::AclCreation;
use wire::api::delete_acls::DeleteAclsFilter;
use wire::state::metadata::{AccessControlEntryRecord, RemoveAccessControlEntryRecord};
use wire::{ErrorCode, Uuid};

use super::{Context, Decision, RECORDS_MAX, Refusal};
use crate::acl::{Acl, AclFilter, AclOperation, CLUSTER_NAME, ResourceType};

/// ACLs of a cluster. They stay until they are deleted, whatever becomes of the resources and users that they name.
const ACLS_MAX: usize = 250_000;
/// The longest texts of one ACL together: each node has all of them in memory.
const TEXT_BYTES_MAX: usize = 2_048;
/// How many ACLs are looked at for the filters of one request: some tenths of a second, in which nothing else is
/// decided. One filter may look at all there are.
const CANDIDATES_MAX: usize = 10 * ACLS_MAX;

/// The result of one creation, in the order of the request.
pub type CreationResult = Result<(), Refusal>;
/// What one filter has deleted.
pub type DeletionResult = Result<Vec<Arc<Acl>>, Refusal>;

/// Adds ACLs. One that is there already is no error and no change. If those that are new are more than can be added,
/// none is: rights without what restricts them would be more than was asked for.
pub fn create(context: &Context<'_>, creations: &[AclCreation]) -> Decision<Vec<CreationResult>> {
    create_within(context, creations, ACLS_MAX)
}

fn create_within(context: &Context<'_>, creations: &[AclCreation], acls_max: usize) -> Decision<Vec<CreationResult>> {
    let acls = context.image.acls();
    let (mut created, mut records) = (BTreeSet::new(), Vec::new());
    let create_one = |creation: &AclCreation| -> CreationResult {
        let mut record = record(creation);
        let acl = check(&record)?;
        if !acls.contains(&acl) && created.insert(acl) {
            record.id = context.new_id();
            records.push(record.into());
        }
        Ok(())
    };
    let mut answer: Vec<CreationResult> = creations.iter().map(create_one).collect();
    let refusal = if records.len() > RECORDS_MAX {
        Some(Refusal::too_large())
    } else if !records.is_empty() && acls.len() + records.len() > acls_max {
        let message =
            format!("There are {} access control entries, and {acls_max} are the most that can be.", acls.len());
        Some(Refusal::new(ErrorCode::POLICY_VIOLATION, message))
    } else {
        None
    };
    if let Some(refusal) = refusal {
        records.clear();
        answer.iter_mut().filter(|result| result.is_ok()).for_each(|result| *result = Err(refusal.clone()));
    }
    Decision { records, answer }
}

/// What a request wants created, without an id.
pub fn record(creation: &AclCreation) -> AccessControlEntryRecord {
    AccessControlEntryRecord {
        id: Uuid::ZERO,
        resource_type: creation.resource_type,
        resource_name: creation.resource_name.clone(),
        pattern_type: creation.resource_pattern_type,
        principal: creation.principal.clone(),
        host: creation.host.clone(),
        operation: creation.operation,
        permission_type: creation.permission_type,
    }
}

/// The ACL of a record, if clients may create it.
fn check(record: &AccessControlEntryRecord) -> Result<Acl, Refusal> {
    let bad = |message: String| Refusal::new(ErrorCode::INVALID_REQUEST, message);
    let acl = Acl::from_record(record).map_err(|error| bad(error.to_string()))?;
    let (resource_type, operation) = (acl.pattern.resource_type, acl.entry.operation);
    if resource_type == ResourceType::Cluster && &*acl.pattern.name != CLUSTER_NAME {
        return Err(bad(format!("The only valid name for the CLUSTER resource is {CLUSTER_NAME}")));
    }
    // Kafka takes it, and it means nothing.
    if operation != AclOperation::All && !resource_type.operations().contains(&operation) {
        return Err(bad(format!("Operation {operation} is not one of resourceType {resource_type}")));
    }
    if acl.text_bytes() > TEXT_BYTES_MAX {
        return Err(bad(format!(
            "The resource name, principal and host have more than {TEXT_BYTES_MAX} bytes together."
        )));
    }
    Ok(acl)
}

/// Deletes what filters match, all of it or nothing if it is too much. What several match is among the results of each.
pub fn delete(context: &Context<'_>, filters: &[DeleteAclsFilter]) -> Decision<Vec<DeletionResult>> {
    delete_within(context, filters, CANDIDATES_MAX)
}

fn delete_within(
    context: &Context<'_>,
    filters: &[DeleteAclsFilter],
    candidates_max: usize,
) -> Decision<Vec<DeletionResult>> {
    let mut search = Search { context, ids: BTreeSet::new(), candidates_left: candidates_max, matches: 0 };
    let mut answer = Vec::with_capacity(filters.len());
    for filter in filters {
        let result = match AclFilter::try_from(filter) {
            Err(unknown) => Err(Refusal::new(ErrorCode::INVALID_REQUEST, unknown.to_string())),
            Ok(filter) => match search.delete(filter) {
                Ok(deleted) => Ok(deleted),
                Err(too_much) => {
                    return Decision { records: Vec::new(), answer: vec![Err(too_much); filters.len()] };
                }
            },
        };
        answer.push(result);
    }
    let records = search.ids.into_iter().map(|id| RemoveAccessControlEntryRecord { id }.into());
    Decision { records: records.collect(), answer }
}

/// What the filters of a request have found so far.
struct Search<'a> {
    context: &'a Context<'a>,
    ids: BTreeSet<Uuid>,
    /// How many more may be looked at.
    candidates_left: usize,
    /// Those of all filters together: each will be in the answer.
    matches: usize,
}

impl Search<'_> {
    /// Refuses if that is more than is done at once.
    fn delete(&mut self, filter: AclFilter<'_>) -> Result<Vec<Arc<Acl>>, Refusal> {
        let mut deleted = Vec::new();
        for (acl, id) in self.context.image.acls().candidates(filter) {
            self.candidates_left = self.candidates_left.checked_sub(1).ok_or_else(|| {
                let message = "Too many filters that name neither a resource nor a principal.";
                Refusal::new(ErrorCode::POLICY_VIOLATION, message)
            })?;
            if filter.matches(acl) {
                self.matches += 1;
                if self.matches > RECORDS_MAX {
                    let message = format!("Cannot remove more than {RECORDS_MAX} acls in a single delete operation.");
                    return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
                }
                self.ids.insert(id);
                deleted.push(Arc::clone(acl));
            }
        }
        Ok(deleted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use configuration::BrokerConfig;
    use platform::Random;

    use super::super::tests::applied;
    use super::*;
    use crate::acl::tests::id;
    use crate::image::MetadataImage;

    /// More ids than [`Counter`](super::super::tests::Counter) has.
    #[derive(Default)]
    struct Ids(AtomicU64);

    impl Random for Ids {
        fn bytes(&self) -> [u8; 16] {
            id(self.0.fetch_add(1, Ordering::Relaxed) as usize).0
        }
    }

    fn on<T>(image: &MetadataImage, decide: impl FnOnce(&Context<'_>) -> Decision<T>) -> (MetadataImage, T) {
        let random = Ids(AtomicU64::new((image.offset() + 2).unsigned_abs() << 32));
        let context = Context { image, config: &BrokerConfig::default(), random: &random };
        let Decision { records, answer } = decide(&context);
        (applied(image, &records), answer)
    }

    fn creation(name: &str) -> AclCreation {
        AclCreation {
            resource_type: 2,
            resource_name: name.to_owned(),
            resource_pattern_type: 3,
            principal: "User:a".into(),
            host: "*".into(),
            operation: 3,
            permission_type: 3,
        }
    }

    fn with(names: &[&str]) -> MetadataImage {
        let creations: Vec<_> = names.iter().map(|name| creation(name)).collect();
        let (image, answer) = on(&MetadataImage::default(), |context| create(context, &creations));
        assert!(answer.iter().all(Result::is_ok));
        image
    }

    fn filter(name: Option<&str>) -> DeleteAclsFilter {
        DeleteAclsFilter {
            resource_type_filter: 1,
            resource_name_filter: name.map(str::to_owned),
            pattern_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        }
    }

    fn codes<T>(answer: &[Result<T, Refusal>]) -> Vec<i16> {
        answer.iter().map(|result| result.as_ref().err().map_or(0, |refusal| refusal.code.0)).collect()
    }

    #[test]
    fn an_acl_is_created_once() {
        let creations = [creation("a"), creation("b"), creation("a")];
        let (image, answer) = on(&MetadataImage::default(), |context| create(context, &creations));
        assert_eq!((answer, image.acls().len()), (vec![Ok(()); 3], 2));
        let again = [creation("b"), AclCreation { operation: 4, ..creation("b") }];
        let (image, answer) = on(&image, |context| create(context, &again));
        assert_eq!((answer, image.acls().len()), (vec![Ok(()); 2], 3));
    }

    #[test]
    fn each_creation_is_refused_by_itself() {
        let good = || creation("a");
        let long = "a".repeat(TEXT_BYTES_MAX);
        let cluster = |name: &str, operation| AclCreation { resource_type: 4, operation, ..creation(name) };
        for (creation, line) in [
            (creation(""), "Invalid empty resource name"),
            (AclCreation { resource_type: 1, ..good() }, "Invalid resourceType ANY"),
            (AclCreation { resource_pattern_type: 2, ..good() }, "Invalid patternType MATCH"),
            (AclCreation { operation: 0, ..good() }, "Invalid operation UNKNOWN"),
            (AclCreation { permission_type: 1, ..good() }, "Invalid permissionType ANY"),
            (
                AclCreation { principal: "alice".into(), ..good() },
                "Could not parse principal from `alice` (no colon is present separating the principal type from the \
                 principal name)",
            ),
            (cluster("cluster", 7), "The only valid name for the CLUSTER resource is kafka-cluster"),
            (cluster("*", 7), "The only valid name for the CLUSTER resource is kafka-cluster"),
            (cluster("kafka-cluster", 3), "Operation READ is not one of resourceType CLUSTER"),
            (AclCreation { operation: 9, ..good() }, "Operation CLUSTER_ACTION is not one of resourceType TOPIC"),
            (creation(&long), "The resource name, principal and host have more than 2048 bytes together."),
        ] {
            let (image, answer) = on(&MetadataImage::default(), |context| create(context, &[good(), creation.clone()]));
            let refusal = answer[1].clone().unwrap_err();
            assert_eq!((refusal.code, refusal.message.as_deref()), (ErrorCode::INVALID_REQUEST, Some(line)));
            assert_eq!((&answer[0], image.acls().len()), (&Ok(()), 1));
        }
        for creation in [cluster("kafka-cluster", 2), AclCreation { resource_pattern_type: 4, ..creation("*") }] {
            let (_, answer) = on(&MetadataImage::default(), |context| create(context, &[creation]));
            assert_eq!(answer, [Ok(())]);
        }
    }

    #[test]
    fn too_many_at_once_are_none() {
        let many = (0..=RECORDS_MAX).map(|n| creation(&n.to_string()));
        let many: Vec<_> = [creation("")].into_iter().chain(many).collect();
        let (image, answer) = on(&MetadataImage::default(), |context| create(context, &many));
        assert!(codes(&answer) == [vec![42], vec![44; RECORDS_MAX + 1]].concat() && image.acls().is_empty());

        let (image, answer) = on(&image, |context| create(context, &many[..=RECORDS_MAX]));
        assert!(codes(&answer) == [vec![42], vec![0; RECORDS_MAX]].concat() && image.acls().len() == RECORDS_MAX);
        let (image, answer) = on(&image, |context| create(context, &many));
        assert!(codes(&answer)[1..].iter().all(|code| *code == 0) && image.acls().len() == RECORDS_MAX + 1);

        let message = |answer: &[DeletionResult]| answer[0].clone().unwrap_err().message.unwrap();
        let (image, answer) = on(&image, |context| delete(context, &[filter(None)]));
        assert_eq!((codes(&answer), image.acls().len()), (vec![42], RECORDS_MAX + 1));
        assert_eq!(message(&answer), "Cannot remove more than 10000 acls in a single delete operation.");
        let one = |image: &MetadataImage| on(image, |context| delete(context, &[filter(Some("0"))])).0;
        let (same, answer) = on(&one(&image), |context| delete(context, &[filter(Some("1")), filter(None)]));
        assert_eq!((codes(&answer), same.acls().len()), (vec![42; 2], RECORDS_MAX), "results of all filters count");
        let (none, answer) = on(&one(&image), |context| delete(context, &[filter(None)]));
        assert_eq!((codes(&answer), none.acls().len()), (vec![0], 0));
    }

    #[test]
    fn the_number_of_all_is_bounded() {
        let image = with(&["a", "b"]);
        let add = |names: &[&str]| {
            let creations: Vec<_> = names.iter().map(|name| creation(name)).collect();
            let (image, answer) = on(&image, |context| create_within(context, &creations, 3));
            (codes(&answer), image.acls().len())
        };
        assert_eq!(add(&["a", "c"]), (vec![0, 0], 3));
        assert_eq!(add(&["a", "c", "d"]), (vec![44; 3], 2));
        let (_, answer) = on(&image, |context| create_within(context, &[creation("a")], 1));
        assert_eq!(codes(&answer), [0], "what is there is no error");
    }

    #[test]
    fn filters_look_at_so_many_acls_together() {
        let image = with(&["a", "b"]);
        let find = |filters: &[DeleteAclsFilter]| {
            let (after, answer) = on(&image, |context| delete_within(context, filters, 4));
            (codes(&answer), after.acls().len())
        };
        let none = || DeleteAclsFilter { operation: 4, ..filter(None) };
        assert_eq!(find(&[none(), none()]), (vec![0, 0], 2));
        assert_eq!(find(&[none(), none(), filter(Some("a"))]), (vec![44; 3], 2));
        assert_eq!(find(&[none(), filter(Some("a")), filter(Some("b"))]), (vec![0, 0, 0], 0));
    }

    #[test]
    fn each_filter_says_what_it_has_deleted() {
        let image = with(&["a", "b", "c"]);
        let filters = [
            filter(Some("a")),
            filter(Some("x")),
            DeleteAclsFilter { permission_type: 0, ..filter(None) },
            DeleteAclsFilter { pattern_type_filter: 0, ..filter(None) },
            DeleteAclsFilter { principal_filter: Some("User:a".into()), ..filter(Some("a")) },
            filter(Some("c")),
        ];
        let (after, answer) = on(&image, |context| delete(context, &filters));
        assert_eq!(codes(&answer), [0, 0, 42, 42, 0, 0]);
        let names = |result: &DeletionResult| {
            let deleted = result.as_ref().map_or(&[][..], |deleted| deleted);
            deleted.iter().map(|acl| acl.pattern.name.to_string()).collect::<String>()
        };
        assert_eq!(answer.iter().map(names).collect::<Vec<_>>(), ["a", "", "", "", "a", "c"]);
        let messages: Vec<_> = answer.iter().filter_map(|result| result.clone().err()?.message).collect();
        assert_eq!(messages, ["Unknown entryFilter.", "Unknown patternFilter."]);
        assert_eq!((image.acls().len(), after.acls().len()), (3, 1));
        let (none, _) = on(&after, |context| delete(context, &[filter(None)]));
        assert!(none.acls().is_empty());
    }
}
