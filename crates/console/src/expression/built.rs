//! How much an expression would put together of a record: texts and lists that `+` or a list or map makes of others.
//!
//! It is added up before anything is evaluated, from the sizes of what the record has: a hundred times a long key is a
//! text of a hundred times its size, with one of each length before it.

use cel::Value;
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::objects::{Key, KeyRef};

/// Of all that one evaluation puts together, or one step of each of its loops. The intermediate results count.
pub(super) const BUILT_BYTES_MAX: u64 = 16 << 20;
/// What a value takes without the bytes that belong to it.
const VALUE_BYTES: u64 = 32;
/// Functions and operators whose result is as large as what they are given; that of others is a number or the like.
const PASSING_ON: [&str; 6] = [operators::ADD, operators::CONDITIONAL, operators::INDEX, "bytes", "dyn", "string"];

/// Whether there is anything in it that puts together more than its own text has.
pub(super) fn is_building(node: &IdedExpr) -> bool {
    let is_read = |node: &IdedExpr| !matches!(node.expr, Expr::Literal(_));
    match &node.expr {
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified | Expr::Struct(_) => false,
        Expr::Select(select) => is_building(&select.operand),
        Expr::Call(call) => {
            let is_sum = call.func_name == operators::ADD && call.args.iter().any(is_read);
            is_sum || call.target.as_deref().into_iter().chain(&call.args).any(is_building)
        }
        Expr::List(list) => list.elements.iter().any(is_read),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => is_read(&entry.key) || is_read(&entry.value),
            EntryExpr::StructField(_) => false,
        }),
        Expr::Comprehension(_) => {
            condition(node).is_some_and(|(_, range, condition)| is_building(range) || is_building(condition))
        }
    }
}

/// What evaluating it would put together of these variables, at most, in bytes.
pub(super) fn built_bytes(node: &IdedExpr, variables: &[(&str, Value)]) -> u64 {
    let mut sizes = Sizes { variables, loops: Vec::new(), built: 0 };
    sizes.size(node);
    sizes.built
}

struct Sizes<'a> {
    variables: &'a [(&'a str, Value)],
    /// Names of what loops are at, and how large that is at most.
    loops: Vec<(&'a str, u64)>,
    built: u64,
}

impl<'a> Sizes<'a> {
    /// Of the result, at most.
    fn size(&mut self, node: &'a IdedExpr) -> u64 {
        match &node.expr {
            Expr::Literal(LiteralValue::String(text)) => VALUE_BYTES + text.inner().len() as u64,
            Expr::Literal(LiteralValue::Bytes(bytes)) => VALUE_BYTES + bytes.inner().len() as u64,
            Expr::Literal(_) | Expr::Unspecified | Expr::Struct(_) => VALUE_BYTES,
            Expr::Ident(name) => self
                .loops
                .iter()
                .rev()
                .find(|(of, _)| of == name)
                .map_or_else(|| self.found(node).map_or(VALUE_BYTES, size_of), |(_, size)| *size),
            Expr::Select(select) => match (self.found(node), self.found(&select.operand)) {
                (Some(value), _) => size_of(value),
                // That there is no such field is said when it is looked at.
                (None, Some(_)) => VALUE_BYTES,
                (None, None) => self.size(&select.operand),
            },
            Expr::Call(call) => {
                let given: u64 =
                    call.target.as_deref().into_iter().chain(&call.args).map(|given| self.size(given)).sum();
                if call.func_name == operators::ADD {
                    self.built += given;
                }
                if PASSING_ON.contains(&call.func_name.as_str()) { given.max(VALUE_BYTES) } else { VALUE_BYTES }
            }
            Expr::List(list) => {
                let size = VALUE_BYTES + list.elements.iter().map(|element| self.size(element)).sum::<u64>();
                self.built += size;
                size
            }
            Expr::Map(map) => {
                let mut size = VALUE_BYTES;
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        size += self.size(&entry.key) + self.size(&entry.value);
                    }
                }
                self.built += size;
                size
            }
            Expr::Comprehension(_) => {
                let Some((name, range, condition)) = condition(node) else { return VALUE_BYTES };
                let size = self.size(range);
                self.loops.push((name, size));
                self.size(condition);
                self.loops.pop();
                size
            }
        }
    }

    /// What of a record is named by a variable and fields, where it has that.
    fn found(&self, node: &IdedExpr) -> Option<&'a Value> {
        match &node.expr {
            Expr::Ident(name) if self.loops.iter().all(|(of, _)| of != name) => {
                self.variables.iter().find(|(of, _)| of == name).map(|(_, value)| value)
            }
            Expr::Select(select) => match self.found(&select.operand)? {
                Value::Map(map) => map.get(&KeyRef::String(&select.field)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// What a loop calls what it is at, what it runs over, and its condition, as `check_loop` knows them.
fn condition(node: &IdedExpr) -> Option<(&str, &IdedExpr, &IdedExpr)> {
    let Expr::Comprehension(of) = &node.expr else { return None };
    let Expr::Call(step) = &of.loop_step.expr else { return None };
    let condition = match (step.func_name.as_str(), step.args.as_slice()) {
        (operators::CONDITIONAL, [condition, ..]) | (_, [_, condition]) => condition,
        _ => return None,
    };
    Some((&of.iter_var, &of.iter_range, condition))
}

fn size_of(value: &Value) -> u64 {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(items) => items.iter().map(size_of).sum(),
            Value::Map(map) => map.map.iter().map(|(key, value)| size_of_key(key) + size_of(value)).sum(),
            _ => 0,
        }
}

fn size_of_key(key: &Key) -> u64 {
    match key {
        Key::String(text) => VALUE_BYTES + text.len() as u64,
        _ => VALUE_BYTES,
    }
}
