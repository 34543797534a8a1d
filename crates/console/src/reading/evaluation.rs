//! Whether an expression is true of a record, whose key and value are decoded for it where it asks for them.

use std::sync::Arc;

use cel::Value;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use wire::record::Record;

use crate::decoding::{Decoder, Structure, json_structure};
use crate::expression::{Expression, map, value};
use crate::text::{FULL_BYTES_MAX, is_json};

/// Records of which it is not known whether the expression is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub count: u64,
    /// Partition, offset and reason of the first that was met.
    pub first: Option<(i32, i64, String)>,
}

#[derive(Debug)]
pub(crate) struct Evaluation {
    expression: Arc<Expression>,
    decoder: Decoder,
    unknown: Mutex<Unknown>,
}

impl Evaluation {
    pub(crate) fn new(expression: Arc<Expression>, decoder: Decoder) -> Self {
        Self { expression, decoder, unknown: Mutex::default() }
    }

    /// Since the last time.
    pub(crate) fn take_unknown(&self) -> Unknown {
        std::mem::take(&mut self.unknown.lock())
    }

    /// On a thread that may wait for the schema of a record, until the deadline at the latest.
    pub(super) fn is_true_of(&self, partition: i32, record: &Record<'_>, deadline: Instant) -> bool {
        let result = self.variables(partition, record, deadline);
        let result = result.and_then(|variables| self.expression.evaluate(variables, deadline));
        result.unwrap_or_else(|reason| {
            let mut unknown = self.unknown.lock();
            unknown.count += 1;
            unknown.first.get_or_insert((partition, record.offset, reason));
            false
        })
    }

    fn variables(
        &self,
        partition: i32,
        record: &Record<'_>,
        deadline: Instant,
    ) -> Result<Vec<(&'static str, Value)>, String> {
        let mut variables = vec![
            ("offset", Value::Int(record.offset)),
            ("partition", Value::Int(i64::from(partition))),
            ("timestamp", Value::Int(record.timestamp)),
        ];
        for (name, field) in [("key", record.key), ("value", record.value)] {
            if self.expression.uses(name) {
                let field =
                    self.field(field, deadline).map_err(|reason| format!("its {name} is not known: {reason}"))?;
                variables.push((name, field));
            }
        }
        if self.expression.uses("headers") {
            let header = |(name, field): (&[u8], Option<&[u8]>)| {
                let field = field.map_or(Structure::Null, plain);
                (String::from_utf8_lossy(name).into_owned(), value(field))
            };
            variables.push(("headers", map(record.headers.iter().map(header))));
        }
        Ok(variables)
    }

    fn field(&self, field: Option<&[u8]>, deadline: Instant) -> Result<Value, String> {
        let Some(bytes) = field else { return Ok(Value::Null) };
        Handle::current().block_on(self.decoder.prepare([bytes], deadline));
        let structure = match self.decoder.decode(bytes) {
            Some(decoded) => decoded?.into_structure()?,
            None => match str::from_utf8(bytes) {
                Ok(text) if text.len() <= FULL_BYTES_MAX && is_json(text) => json_structure(text)?,
                _ => plain(bytes),
            },
        };
        Ok(value(structure))
    }
}

fn plain(bytes: &[u8]) -> Structure {
    match str::from_utf8(bytes) {
        Ok(text) => Structure::Text(text.to_owned()),
        Err(_) => Structure::Bytes(bytes.to_vec()),
    }
}
