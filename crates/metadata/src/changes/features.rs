//! Levels of features that are finalized, raised and lowered (`FeatureControlManager`).

use std::collections::BTreeSet;

use wire::ErrorCode;
use wire::api::update_features::FeatureUpdateKey;
use wire::state::metadata::FeatureLevelRecord;

use super::configs::AlterationResult;
use super::{Context, Decision, Refusal};
use crate::features::{self, Feature, MISSING};
use crate::image::RegisteredBroker;

/// The types of an update (`FeatureUpdate.UpgradeType`). Unsafe downgrades may lose metadata; there is none that would.
const UPGRADE: i8 = 1;
pub const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

/// Finalizes these levels: all of them, or none.
///
/// `kafka-features.sh` asks for the levels of a release by naming all features of Kafka, `metadata.version` among them.
/// Those that this version does not have are left out then. Whoever asks for one of them by itself is refused.
pub fn update(context: &Context<'_>, updates: &[FeatureUpdateKey], validate_only: bool) -> Decision<AlterationResult> {
    let is_release = updates.iter().any(|update| update.feature == Feature::MetadataVersion.supported().name);
    let mut names = BTreeSet::new();
    let mut records = Vec::new();
    for update in updates {
        let decided = if !names.insert(&update.feature) {
            Err(Refusal::new(ErrorCode::INVALID_REQUEST, format!("{} is named more than once.", update.feature)))
        } else if is_release && MISSING.contains(&update.feature.as_str()) {
            Ok(None)
        } else {
            update_one(context, update).map_err(|reason| {
                let FeatureUpdateKey { feature, max_version_level, .. } = update;
                let message = format!("Invalid update version {max_version_level} for feature {feature}. {reason}");
                Refusal::new(ErrorCode::INVALID_UPDATE_VERSION, message)
            })
        };
        match decided {
            Ok(record) => records.extend(record.map(Into::into)),
            Err(refusal) => return Decision { records: Vec::new(), answer: Err(refusal) },
        }
    }
    if validate_only {
        records.clear();
    }
    Decision { records, answer: Ok(()) }
}

/// The record of a new level, none where the level stays, or why the level is not possible.
fn update_one(context: &Context<'_>, update: &FeatureUpdateKey) -> Result<Option<FeatureLevelRecord>, String> {
    let level = update.max_version_level;
    if !matches!(update.upgrade_type, UPGRADE | SAFE_DOWNGRADE | UNSAFE_DOWNGRADE) {
        return Err("The controller does not support the given upgrade type.".to_owned());
    }
    if level < 0 {
        return Err("A feature version cannot be less than 0.".to_owned());
    }
    let Some(supported) = features::find(&update.feature) else {
        return match level {
            0 if MISSING.contains(&update.feature.as_str()) => Ok(None),
            _ => Err(format!("Local controller {} does not support this feature.", context.config.node_id)),
        };
    };
    let own = Some((supported.min, supported.max));
    check_support(&format!("Local controller {}", context.config.node_id), own, level)?;
    let current = context.image.feature_level(supported.feature);
    if level < current && update.upgrade_type == UPGRADE {
        return Err("Can't downgrade the version of this feature without setting the upgrade type to either safe or \
                    unsafe downgrade."
            .to_owned());
    }
    if level > current && update.upgrade_type != UPGRADE {
        return Err("Can't downgrade to a newer version.".to_owned());
    }
    if level == current {
        return Ok(None);
    }
    for broker in context.image.brokers() {
        let RegisteredBroker { id, features, .. } = broker;
        check_support(&format!("Broker {id}"), features.get(supported.name).copied(), level)?;
    }
    if supported.feature == Feature::MetadataVersion && level < current {
        // Its records are written in their newest versions, whatever the level.
        return Err("Refusing to perform the requested downgrade because it might delete metadata information.".into());
    }
    Ok(Some(FeatureLevelRecord { name: supported.name.to_owned(), feature_level: level }))
}

/// Whether a node that has these levels of a feature has this one. A node without the feature is at level 0.
fn check_support(node: &str, levels: Option<(i16, i16)>, level: i16) -> Result<(), String> {
    let (min, max) = levels.unwrap_or_default();
    match level {
        _ if (min..=max).contains(&level) => Ok(()),
        _ if max == 0 => Err(format!("{node} does not support this feature.")),
        _ if min == max => Err(format!("{node} only supports versions {min}")),
        _ => Err(format!("{node} only supports versions {min}-{max}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::{applied, brokers, on};
    use super::super::with_brokers;
    use super::*;
    use crate::image::MetadataImage;

    /// As [`brokers`], and they support what this version does; the metadata's level is finalized.
    fn cluster(ids: &[i32]) -> MetadataImage {
        let supported = features::FEATURES.iter().map(|row| (row.name.to_owned(), (row.min, row.max)));
        let supported: BTreeMap<_, _> = supported.collect();
        let image = with_brokers(&brokers(ids), |brokers| {
            brokers.values_mut().for_each(|broker| broker.features.clone_from(&supported));
        });
        applied(&image, &[FeatureLevelRecord { name: "metadata.version".into(), feature_level: 30 }.into()])
    }

    fn key(feature: &str, max_version_level: i16, upgrade_type: i8) -> FeatureUpdateKey {
        FeatureUpdateKey { feature: feature.into(), max_version_level, upgrade_type, ..Default::default() }
    }

    fn updated(image: &MetadataImage, updates: &[FeatureUpdateKey]) -> Result<MetadataImage, Refusal> {
        let Decision { records, answer } = on(image, |context| update(context, updates, false));
        answer.map(|()| applied(image, &records))
    }

    /// The reason of a refusal with INVALID_UPDATE_VERSION.
    fn reason(image: &MetadataImage, update: FeatureUpdateKey) -> String {
        let prefix = format!("Invalid update version {} for feature {}. ", update.max_version_level, update.feature);
        let refusal = updated(image, &[update]).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::INVALID_UPDATE_VERSION);
        refusal.message.unwrap().strip_prefix(&prefix).unwrap().to_owned()
    }

    fn levels(image: &MetadataImage) -> [i16; 2] {
        [image.feature_level(Feature::TransactionVersion), image.feature_level(Feature::GroupVersion)]
    }

    #[test]
    fn levels_are_raised_and_lowered() {
        let image = cluster(&[1, 2]);
        assert_eq!(levels(&image), [0, 0]);
        let image =
            updated(&image, &[key("transaction.version", 2, UPGRADE), key("group.version", 1, UPGRADE)]).unwrap();
        assert_eq!(levels(&image), [2, 1]);
        let image = updated(&image, &[key("transaction.version", 1, SAFE_DOWNGRADE)]).unwrap();
        assert_eq!(levels(&image), [1, 1]);
        let image = updated(&image, &[key("group.version", 0, UNSAFE_DOWNGRADE)]).unwrap();
        assert_eq!(levels(&image), [1, 0]);
    }

    #[test]
    fn the_type_of_an_update_says_its_direction() {
        let image = updated(&cluster(&[1]), &[key("transaction.version", 1, UPGRADE)]).unwrap();
        assert!(reason(&image, key("transaction.version", 0, UPGRADE)).starts_with("Can't downgrade the version"));
        for downgrade in [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE] {
            let reason = reason(&image, key("transaction.version", 2, downgrade));
            assert_eq!(reason, "Can't downgrade to a newer version.");
        }
        for unknown in [0, 4, -1] {
            let reason = reason(&image, key("transaction.version", 2, unknown));
            assert_eq!(reason, "The controller does not support the given upgrade type.");
        }
        assert_eq!(
            reason(&image, key("transaction.version", -1, SAFE_DOWNGRADE)),
            "A feature version cannot be less than 0."
        );
    }

    #[test]
    fn a_level_that_stays_is_no_change() {
        let image = cluster(&[1]);
        for upgrade_type in [UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE] {
            for (feature, level) in
                [("metadata.version", 30), ("group.version", 0), ("kraft.version", 1), ("share.version", 0)]
            {
                let updates = [key(feature, level, upgrade_type)];
                let decision = on(&image, |context| update(context, &updates, false));
                assert_eq!(decision, Decision { records: Vec::new(), answer: Ok(()) }, "{feature}");
            }
        }
    }

    #[test]
    fn all_nodes_have_to_support_a_level() {
        let image = cluster(&[1, 2, 3]);
        let only = "Local controller 1 only supports versions ";
        assert_eq!(reason(&image, key("transaction.version", 3, UPGRADE)), format!("{only}0-2"));
        assert_eq!(reason(&image, key("metadata.version", 6, SAFE_DOWNGRADE)), format!("{only}7-30"));
        assert_eq!(reason(&image, key("kraft.version", 0, SAFE_DOWNGRADE)), format!("{only}1"));
        for feature in ["share.version", "unknown.version", ""] {
            let reason = reason(&image, key(feature, 1, UPGRADE));
            assert_eq!(reason, "Local controller 1 does not support this feature.");
        }
        let with = |level: Option<(i16, i16)>| {
            with_brokers(&image, |brokers| {
                let features = &mut brokers.get_mut(&3).unwrap().features;
                features.remove("transaction.version");
                features.extend(level.map(|level| ("transaction.version".to_owned(), level)));
            })
        };
        let to_2 = || key("transaction.version", 2, UPGRADE);
        assert_eq!(reason(&with(None), to_2()), "Broker 3 does not support this feature.");
        assert_eq!(reason(&with(Some((0, 1))), to_2()), "Broker 3 only supports versions 0-1");
        assert!(updated(&with(Some((0, 1))), &[key("transaction.version", 1, UPGRADE)]).is_ok());
    }

    #[test]
    fn the_level_of_the_metadata_stays() {
        for downgrade in [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE] {
            let reason = reason(&cluster(&[1]), key("metadata.version", 29, downgrade));
            assert!(reason.starts_with("Refusing to perform the requested downgrade"), "{reason}");
        }
        let older = FeatureLevelRecord { name: "metadata.version".into(), feature_level: 29 };
        let image = applied(&cluster(&[1]), &[older.into()]);
        let image = updated(&image, &[key("metadata.version", 30, UPGRADE)]).unwrap();
        assert_eq!(image.feature_level(Feature::MetadataVersion), 30);
    }

    #[test]
    fn one_update_that_is_refused_refuses_all() {
        let image = cluster(&[1]);
        let updates = [key("transaction.version", 2, UPGRADE), key("group.version", 2, UPGRADE)];
        let decision = on(&image, |context| update(context, &updates, false));
        assert!(decision.records.is_empty());
        let message =
            "Invalid update version 2 for feature group.version. Local controller 1 only supports versions 0-1";
        assert_eq!(decision.answer, Err(Refusal::new(ErrorCode::INVALID_UPDATE_VERSION, message)));
        let twice = [key("group.version", 1, UPGRADE), key("group.version", 0, UPGRADE)];
        assert_eq!(updated(&image, &twice).unwrap_err().code, ErrorCode::INVALID_REQUEST);
    }

    #[test]
    fn what_is_only_validated_changes_nothing() {
        let image = cluster(&[1]);
        let validated = |update_key| on(&image, |context| update(context, &[update_key], true));
        let good = validated(key("transaction.version", 2, UPGRADE));
        assert_eq!(good, Decision { records: Vec::new(), answer: Ok(()) });
        assert!(validated(key("transaction.version", 3, UPGRADE)).answer.is_err());
    }

    /// What `kafka-features.sh upgrade --release-version 4.3` sends.
    #[test]
    fn a_release_names_features_that_are_not_here() {
        let mut updates = vec![
            key("metadata.version", 30, UPGRADE),
            key("kraft.version", 1, UPGRADE),
            key("transaction.version", 2, UPGRADE),
            key("group.version", 1, UPGRADE),
            key("eligible.leader.replicas.version", 1, UPGRADE),
            key("share.version", 1, UPGRADE),
            key("streams.version", 1, UPGRADE),
        ];
        let image = updated(&cluster(&[1]), &updates).unwrap();
        assert_eq!(levels(&image), [2, 1]);
        assert_eq!(image.features().len(), 3);
        updates.push(key("unknown.version", 1, UPGRADE));
        assert!(updated(&cluster(&[1]), &updates).is_err());
    }
}
