//! What a page of messages was asked for: its form, and the positions of its links.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use serde::Deserialize;

use crate::expression::Expression;
use crate::format::{escape, parse_moment};
use crate::reading::Filter;
use crate::text::Show;

const LIMIT: usize = 50;
const LIMIT_MAX: usize = 500;

/// The query, as it came. Fields that are left empty are as if they were not there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MessagesQuery {
    pub partition: String,
    pub from: String,
    pub offset: String,
    pub time: String,
    pub limit: String,
    pub key: String,
    pub value: String,
    pub header: String,
    pub expression: String,
    pub show: String,
    /// Positions: what lies from these offsets on, and before these.
    pub after: String,
    pub before: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Newest,
    Start,
    Offset(i64),
    /// Milliseconds.
    Time(i64),
}

/// Offsets by partition.
pub(crate) type Positions = BTreeMap<i32, i64>;

/// The same, understood.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub partition: Option<i32>,
    pub from: From,
    pub limit: usize,
    pub filter: Filter,
    /// What has to be true of records, besides.
    pub expression: Option<Arc<Expression>>,
    pub show: Show,
    pub after: Option<Positions>,
    pub before: Option<Positions>,
}

impl Plan {
    pub(crate) fn is_filtered(&self) -> bool {
        let Filter { key, value, header, .. } = &self.filter;
        self.expression.is_some() || [key, value, header].iter().any(|part| !part.is_empty())
    }

    pub(crate) fn is_newest_first(&self) -> bool {
        self.from == From::Newest
    }

    /// Which way it is looked: away from the position that is given.
    pub(crate) fn is_backward(&self) -> bool {
        match (&self.after, &self.before) {
            (Some(_), None) => false,
            (None, Some(_)) => true,
            _ => self.is_newest_first(),
        }
    }
}

impl MessagesQuery {
    /// An error is a sentence for who has asked.
    pub(crate) fn plan(&self, partitions: usize) -> Result<Plan, String> {
        let partition = match self.partition.trim() {
            "" => None,
            text => match text.parse::<i32>() {
                Ok(index) if usize::try_from(index).is_ok_and(|index| index < partitions) => Some(index),
                _ => return Err(format!("There is no partition {text:?}: they are 0 to {}.", partitions.max(1) - 1)),
            },
        };
        let from = match self.from.as_str() {
            "" | "newest" => From::Newest,
            "start" => From::Start,
            "offset" => match self.offset.trim().parse() {
                Ok(offset @ 0..) => From::Offset(offset),
                _ => return Err(format!("{:?} is no offset: it is a number from 0.", self.offset)),
            },
            "time" => From::Time(
                parse_moment(self.time.trim())
                    .ok_or_else(|| format!("{:?} is no time: it is like 2026-11-22T14:20:00, in UTC.", self.time))?,
            ),
            other => return Err(format!("One reads from newest, start, offset or time, and not from {other:?}.")),
        };
        let limit = match self.limit.trim() {
            "" => LIMIT,
            text => match text.parse() {
                Ok(limit @ 1..=LIMIT_MAX) => limit,
                _ => return Err(format!("{text:?} records cannot be shown: it takes a number from 1 to {LIMIT_MAX}.")),
            },
        };
        let show = match self.show.as_str() {
            "" => Show::Auto,
            name => Show::named(name).ok_or_else(|| {
                let known = Show::ALL.map(|(_, known, _)| known).join(", ");
                format!("Records are shown as one of {known}, and not as {name:?}.")
            })?,
        };
        let expression = match self.expression.trim() {
            "" => None,
            source => {
                Some(Expression::parse(source).map_err(|error| format!("The expression is not right: {error}."))?)
            }
        };
        let filter =
            Filter { key: self.key.clone(), value: self.value.clone(), header: self.header.clone(), evaluation: None };
        let (after, before) = (parse_positions(&self.after)?, parse_positions(&self.before)?);
        Ok(Plan { partition, from, limit, filter, expression: expression.map(Arc::new), show, after, before })
    }

    /// The same look from another position.
    pub(crate) fn link(&self, after: Option<&Positions>, before: Option<&Positions>) -> String {
        let mut link = format!("?{}", self.filter_query());
        let start = [("from", &self.from), ("offset", &self.offset), ("time", &self.time), ("limit", &self.limit)];
        for (name, value) in start.into_iter().filter(|(_, value)| !value.is_empty()) {
            let _ = write!(link, "&{name}={}", escape(value));
        }
        for (name, positions) in [("after", after), ("before", before)] {
            if let Some(positions) = positions {
                let _ = write!(link, "&{name}={}", positions_text(positions));
            }
        }
        link.replacen("?&", "?", 1)
    }

    /// Which records, and how they look, wherever they are.
    pub(crate) fn filter_query(&self) -> String {
        let fields = [
            ("partition", &self.partition),
            ("key", &self.key),
            ("value", &self.value),
            ("header", &self.header),
            ("expression", &self.expression),
            ("show", &self.show),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("{name}={}", escape(value))).collect::<Vec<_>>().join("&")
    }
}

/// `0:120,1:7`: partition 0 from offset 120, partition 1 from offset 7.
fn positions_text(positions: &Positions) -> String {
    let mut text = String::new();
    for (partition, offset) in positions {
        let _ = write!(text, "{}{partition}:{offset}", if text.is_empty() { "" } else { "," });
    }
    text
}

fn parse_positions(text: &str) -> Result<Option<Positions>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let position = |text: &str| {
        let (partition, offset) = text.split_once(':')?;
        Some((partition.parse().ok()?, offset.parse().ok().filter(|offset: &i64| *offset >= 0)?))
    };
    let positions = text.split(',').map(position).collect::<Option<_>>();
    positions
        .map(Some)
        .ok_or_else(|| "The address of this page is not complete: it has positions like 0:120,1:7.".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(fields: &[(&str, &str)]) -> MessagesQuery {
        let mut asked = MessagesQuery::default();
        for (name, value) in fields {
            let field = match *name {
                "partition" => &mut asked.partition,
                "from" => &mut asked.from,
                "offset" => &mut asked.offset,
                "time" => &mut asked.time,
                "limit" => &mut asked.limit,
                "key" => &mut asked.key,
                "value" => &mut asked.value,
                "expression" => &mut asked.expression,
                "show" => &mut asked.show,
                "after" => &mut asked.after,
                "before" => &mut asked.before,
                other => panic!("{other}"),
            };
            (*value).clone_into(field);
        }
        asked
    }

    #[test]
    fn nothing_in_particular_is_the_newest_of_all() {
        let plan = asked(&[]).plan(3).unwrap();
        assert_eq!((plan.partition, plan.from, plan.limit, plan.show), (None, From::Newest, 50, Show::Auto));
        assert!(!plan.is_filtered() && plan.is_newest_first() && plan.is_backward());
    }

    #[test]
    fn places_are_understood() {
        let from = |fields: &[(&str, &str)]| asked(fields).plan(3).map(|plan| plan.from);
        assert_eq!(from(&[("from", "start")]), Ok(From::Start));
        assert_eq!(from(&[("from", "offset"), ("offset", " 12 ")]), Ok(From::Offset(12)));
        let time = [("from", "time"), ("time", "2026-11-22T14:20:11")];
        assert_eq!(from(&time), Ok(From::Time(1_795_357_211_000)));
        // Only what was chosen counts.
        assert_eq!(from(&[("from", "start"), ("offset", "x"), ("time", "y")]), Ok(From::Start));
    }

    #[test]
    fn nonsense_is_refused_in_a_sentence() {
        for (field, value, says) in [
            ("partition", "3", "they are 0 to 2"),
            ("partition", "-1", "they are 0 to 2"),
            ("from", "hell", "not from \"hell\""),
            ("limit", "501", "from 1 to 500"),
            ("limit", "0", "from 1 to 500"),
            ("show", "xml", "one of auto, text, json, hex, messagepack, avro, protobuf, and not as \"xml\""),
            ("expression", "value.a ==", "The expression is not right: "),
            ("expression", "valeu.a == 1", "there is no valeu: a record has key, value,"),
            ("after", "0:1,", "positions like"),
            ("before", "0:-1", "positions like"),
        ] {
            let error = asked(&[(field, value)]).plan(3).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(asked(&[("from", "offset"), ("offset", "-1")]).plan(3).is_err());
        assert!(asked(&[("from", "time"), ("time", "yesterday")]).plan(3).is_err());
    }

    #[test]
    fn links_say_all_of_it() {
        let asked = asked(&[
            ("from", "time"),
            ("time", "2026-11-22T14:20"),
            ("key", "a&b=ü"),
            ("expression", "offset > 1"),
            ("limit", "100"),
        ]);
        let positions = Positions::from([(0, 120), (7, 3)]);
        assert_eq!(
            asked.link(Some(&positions), None),
            "?key=a%26b%3D%C3%BC&expression=offset%20%3E%201&from=time&time=2026-11-22T14%3A20&limit=100&after=0:120,7:3"
        );
        assert_eq!(MessagesQuery::default().link(None, Some(&positions)), "?before=0:120,7:3");
        assert_eq!(parse_positions("0:120,7:3"), Ok(Some(positions)));
    }

    #[test]
    fn one_looks_away_from_the_position() {
        let is_backward = |fields: &[(&str, &str)]| asked(fields).plan(1).unwrap().is_backward();
        assert!(!is_backward(&[("after", "0:1")]));
        assert!(is_backward(&[("from", "start"), ("before", "0:1")]));
        assert!(is_backward(&[("after", "0:1"), ("before", "0:3")]));
        assert!(!is_backward(&[("from", "start"), ("after", "0:1"), ("before", "0:3")]));
    }
}
