//! Conditions on records that somebody has typed, in CEL.
//!
//! The parser and the evaluation are the `cel` crate's. What an expression may cost is bounded here: its length, how
//! deep it goes, the bytes that it puts together (`built.rs`), and the steps of its loops, which are counted by calls
//! that are put into them. A loop runs only over
//! what a record has or what the expression lists, and not over what it has put together: else values could double with
//! every loop, and no number of steps would be few enough.

mod built;

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::objects::Key;
use cel::parser::Parser;
use cel::{Context, Env, ExecutionError, ParseErrors, Value};
use tokio::time::Instant;

use crate::decoding::Structure;

pub(crate) const CHARS_MAX: usize = 1000;
/// Each level takes stack.
const DEPTH_MAX: u16 = 32;
/// Of all loops together, on one record.
const STEPS_MAX: u32 = 50_000;
/// Of why an expression could not be evaluated.
const REASON_CHARS_MAX: usize = 200;
/// Counts a step. No expression that is typed has such a name.
const STEP: &str = "@step";

/// What there is of a record.
pub(crate) const VARIABLES: [&str; 6] = ["key", "value", "headers", "offset", "partition", "timestamp"];
const TYPES: [&str; 10] = ["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "uint"];
const FUNCTIONS: [&str; 12] =
    ["size", "contains", "startsWith", "endsWith", "bool", "bytes", "double", "dyn", "int", "string", "type", "uint"];
const OPERATORS: [&str; 17] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
];

/// Functions and types of CEL, without those that would need more than what is counted here.
static STANDARD: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(Env::default().with_optional_support(false).with_stdlib()));

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("it has more than {CHARS_MAX} characters")]
    TooLong,
    #[error("{0}")]
    Syntax(String),
    #[error("there is no {0}: a record has {list}", list = VARIABLES.join(", "))]
    UnknownVariable(String),
    #[error("there is no function {0}(): there are {list}, has(), all(), exists(), exists_one() and filter()", list = functions())]
    UnknownFunction(String),
    #[error("map() is not there: ask with exists(), all() or filter()")]
    Map,
    #[error("a loop runs over what a record has, and not over what + or a list puts together")]
    PutTogether,
}

fn functions() -> String {
    FUNCTIONS.map(|name| format!("{name}()")).join(", ")
}

/// An expression that can be evaluated.
#[derive(Debug)]
pub(crate) struct Expression {
    tree: IdedExpr,
    /// Whether it puts something together, the size of which is to be known first.
    is_building: bool,
    used: Vec<&'static str>,
}

impl Expression {
    pub(crate) fn parse(source: &str) -> Result<Self, ExpressionError> {
        if source.chars().count() > CHARS_MAX {
            return Err(ExpressionError::TooLong);
        }
        let parser = Parser::new().max_recursion_depth(DEPTH_MAX).error_recovery_limit(1);
        let mut tree = parser.parse(source).map_err(|errors| ExpressionError::Syntax(first(&errors)))?;
        check(&mut tree, &mut Vec::new(), false)?;
        let references = tree.references();
        let used = VARIABLES.into_iter().filter(|name| references.has_variable(name)).collect();
        Ok(Self { is_building: built::is_building(&tree), tree, used })
    }

    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.used.contains(&variable)
    }

    /// Whether it is true of these variables. An error says why that is not known.
    pub(crate) fn evaluate(&self, variables: Vec<(&str, Value)>, deadline: Instant) -> Result<bool, String> {
        if self.is_building && built::built_bytes(&self.tree, &variables) > built::BUILT_BYTES_MAX {
            return Err(format!("it puts together more than {} MiB", built::BUILT_BYTES_MAX >> 20));
        }
        let steps = Arc::new(Steps { left: AtomicU32::new(STEPS_MAX), deadline });
        let counted = Arc::clone(&steps);
        let mut context = Context::with_env(Arc::clone(&STANDARD));
        context.add_function(STEP, move || counted.step()).map_err(|error| error.to_string())?;
        for (name, value) in variables {
            context.add_variable_from_value(name, value);
        }
        let result = Value::resolve(&self.tree, &context);
        if let Some(spent) = steps.spent() {
            // Whatever came of it: operators pass over errors that do not matter to them.
            return Err(spent.to_owned());
        }
        match result {
            Ok(Value::Bool(result)) => Ok(result),
            Ok(other) => Err(format!("its result is neither true nor false, but a {}", other.type_of())),
            Err(ExecutionError::NoSuchKey(name)) => Err(format!("there is no {name}")),
            Err(error) => Err(shortened(&error)),
        }
    }
}

/// The first mistake, and where it is.
fn first(errors: &ParseErrors) -> String {
    let Some(error) = errors.errors.first() else { return "it is no expression".to_owned() };
    match error.pos {
        (1.., column @ 1..) => format!("{} at character {column}", error.msg),
        _ => error.msg.clone(),
    }
}

/// The text of an error, which may have all of a value in it.
fn shortened(error: &ExecutionError) -> String {
    struct Beginning(String);
    impl Write for Beginning {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let left = REASON_CHARS_MAX - self.0.chars().count();
            self.0.extend(text.chars().take(left));
            if text.chars().nth(left).is_some() { Err(std::fmt::Error) } else { Ok(()) }
        }
    }
    let mut beginning = Beginning(String::new());
    if write!(beginning, "{error}").is_err() {
        beginning.0.push('…');
    }
    beginning.0
}

/// What is left of the steps of a record, and of the time of a look.
struct Steps {
    left: AtomicU32,
    deadline: Instant,
}

impl Steps {
    fn step(&self) -> Result<bool, ExecutionError> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        match self.spent() {
            None => Ok(true),
            Some(spent) => Err(ExecutionError::function_error(STEP, spent)),
        }
    }

    fn spent(&self) -> Option<&'static str> {
        if self.left.load(Ordering::Relaxed) == 0 {
            Some("its loops take too many steps")
        } else if Instant::now() >= self.deadline {
            Some("it takes too long")
        } else {
            None
        }
    }
}

/// Refuses what there is not and what cannot be bounded, and has loops count their steps. `names` are those that loops
/// around it give to what they are at; `is_looped_over` says whether it is part of what a loop runs over.
fn check(node: &mut IdedExpr, names: &mut Vec<String>, is_looped_over: bool) -> Result<(), ExpressionError> {
    match &mut node.expr {
        Expr::Ident(name) => {
            let is_known = names.contains(name) || VARIABLES.contains(&&**name) || TYPES.contains(&&**name);
            is_known.then_some(()).ok_or_else(|| ExpressionError::UnknownVariable(name.clone()))
        }
        Expr::Literal(_) => Ok(()),
        Expr::Select(select) => check(&mut select.operand, names, is_looped_over),
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            if !(FUNCTIONS.contains(&name) || OPERATORS.contains(&name) || name == operators::IN) {
                let is_map = name == operators::MAP;
                return Err(if is_map {
                    ExpressionError::Map
                } else {
                    ExpressionError::UnknownFunction(name.to_owned())
                });
            }
            if is_looped_over && name == operators::ADD {
                return Err(ExpressionError::PutTogether);
            }
            let arguments = call.target.as_deref_mut().into_iter().chain(&mut call.args);
            arguments.into_iter().try_for_each(|argument| check(argument, names, is_looped_over))
        }
        Expr::List(list) => list.elements.iter_mut().try_for_each(|element| part(element, names, is_looped_over)),
        Expr::Map(map) => map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
            EntryExpr::MapEntry(entry) => {
                part(&mut entry.key, names, is_looped_over)?;
                part(&mut entry.value, names, is_looped_over)
            }
            EntryExpr::StructField(_) => Err(ExpressionError::PutTogether),
        }),
        Expr::Comprehension(comprehension) => check_loop(comprehension, names),
        Expr::Struct(of) => Err(ExpressionError::UnknownFunction(of.type_name.clone())),
        Expr::Unspecified => Err(ExpressionError::Syntax("it is no expression".to_owned())),
    }
}

/// A part of a list or a map that is written out.
fn part(node: &mut IdedExpr, names: &mut Vec<String>, is_looped_over: bool) -> Result<(), ExpressionError> {
    match &node.expr {
        Expr::Literal(_) => Ok(()),
        _ if is_looped_over => Err(ExpressionError::PutTogether),
        _ => check(node, names, false),
    }
}

/// What all(), exists(), exists_one() and filter() are, as the parser has them.
fn check_loop(comprehension: &mut ComprehensionExpr, names: &mut Vec<String>) -> Result<(), ExpressionError> {
    let ComprehensionExpr { iter_range, iter_var, loop_cond, loop_step, .. } = comprehension;
    check(iter_range, names, true)?;
    let Expr::Call(step) = &mut loop_step.expr else { return Err(ExpressionError::Map) };
    names.push(iter_var.clone());
    match (step.func_name.as_str(), step.args.as_mut_slice()) {
        // The result so far, and the condition.
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [_, condition]) => {
            check(condition, names, false)?;
            count(loop_cond);
        }
        // The condition, the result with one more, and without.
        (operators::CONDITIONAL, [condition, more, _]) if !is_mapped(more, iter_var) => {
            check(condition, names, false)?;
            count(condition);
        }
        _ => return Err(ExpressionError::Map),
    }
    names.pop();
    Ok(())
}

/// Whether a loop collects something else than what it runs over.
fn is_mapped(more: &IdedExpr, name: &str) -> bool {
    let Expr::Call(CallExpr { args, .. }) = &more.expr else { return true };
    let is_same = |element: &IdedExpr| matches!(&element.expr, Expr::Ident(of) if of == name);
    args.iter().any(|arg| matches!(&arg.expr, Expr::List(list) if !list.elements.iter().all(is_same)))
}

/// Has a condition count a step before it is looked at. An error of that ends the loop.
fn count(condition: &mut IdedExpr) {
    let inner = std::mem::take(condition);
    let id = inner.id;
    let call = |name: &str, args| IdedExpr {
        id,
        expr: Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }),
    };
    let never = IdedExpr { id, expr: Expr::Literal(LiteralValue::Boolean(false.into())) };
    *condition = call(operators::CONDITIONAL, vec![call(STEP, Vec::new()), inner, never]);
}

/// A decoded value for an expression.
pub(crate) fn value(structure: Structure) -> Value {
    match structure {
        Structure::Null => Value::Null,
        Structure::Boolean(value) => Value::Bool(value),
        Structure::Int(value) => Value::Int(value),
        Structure::Uint(value) => Value::UInt(value),
        Structure::Double(value) => Value::Float(value),
        Structure::Text(text) => Value::String(text.into()),
        Structure::Bytes(bytes) => Value::Bytes(bytes.into()),
        Structure::List(items) => Value::List(Arc::new(items.into_iter().map(value).collect())),
        Structure::Map(fields) => map(fields.into_iter().map(|(name, field)| (name, value(field)))),
    }
}

pub(crate) fn map(entries: impl Iterator<Item = (String, Value)>) -> Value {
    let map = entries.map(|(name, value)| (Key::String(name.into()), value)).collect();
    Value::Map(cel::objects::Map { map: Arc::new(map) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decoding::json_structure;

    fn evaluate_of(source: &str, json: &str) -> Result<bool, String> {
        let variables = vec![
            ("key", value(Structure::Text("k7".to_owned()))),
            ("value", value(json_structure(json).unwrap())),
            ("headers", map([("trace".to_owned(), value(Structure::Text("t1".to_owned())))].into_iter())),
            ("offset", Value::Int(12)),
            ("partition", Value::Int(3)),
            ("timestamp", Value::Int(1_795_357_211_042)),
        ];
        let expression = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        expression.evaluate(variables, Instant::now() + Duration::from_secs(60))
    }

    const ORDER: &str = r#"{"customer":"c7","amount":120,"rate":1.5,"paid":true,"none":null,"big":18446744073709551615,
        "lines":[{"sku":"a","count":2},{"sku":"b","count":5}],"tags":["x","y"],"with space":1}"#;

    #[test]
    fn conditions_are_true_or_false() {
        for source in [
            r#"value.customer == "c7" && value.amount > 100.0"#,
            "value.amount == 120.0 && value.amount < 120.5 && value.rate > 1 && value.rate >= 1.5",
            "value.big > 1 && value.big > 1.0 && value.amount != value.big",
            "value.lines.exists(line, line.sku == 'b' && line.count > 4.5)",
            "value.lines.all(line, line.count > 1) && !value.lines.all(line, line.count > 2)",
            "value.lines.exists_one(line, line.count > 2) && size(value.lines.filter(line, line.count > 1)) == 2",
            "value.lines.filter(line, line.count > 2).exists(line, line.sku == 'b')",
            "has(value.customer) && !has(value.nothing)",
            "has(value.nothing) && value.nothing > 1 || value.paid",
            "'x' in value.tags && !('z' in value.tags) && 'customer' in value && value['with space'] == 1",
            "headers.trace.startsWith('t') && headers['trace'].endsWith('1') && key.contains('7') && size(key) == 2",
            "offset == 12 && partition in [1, 2, 3] && timestamp > 1795357211041",
            "value.none == null && value.lines[1].sku == 'b' && int('7') == 7 && string(offset) + 'x' == '12x'",
            "['c6', 'c7'].exists(name, name == value.customer) && type(value.amount) == int",
            "value.exists(name, name == 'rate') && (value.paid ? value.amount % 7 == 1 : false)",
            "value.lines.exists(one, value.lines.exists(other, one.count < other.count && other.sku > one.sku))",
        ] {
            assert_eq!(evaluate_of(source, ORDER), Ok(true), "{source}");
        }
        for source in ["value.customer == 7", "value.lines.exists(line, line.sku == 'c')", "value.amount > 120"] {
            assert_eq!(evaluate_of(source, ORDER), Ok(false), "{source}");
        }
    }

    #[test]
    fn what_is_not_known_of_a_record_is_said() {
        let reason = |source: &str| evaluate_of(source, ORDER).unwrap_err();
        assert_eq!(reason("value.nothing > 1"), "there is no nothing");
        assert_eq!(reason("value.amount"), "its result is neither true nor false, but a int");
        for source in ["value.customer > 7", "value.amount / 0 == 1", "value.lines[9].sku == 'a'", "int('x') == 1"] {
            let reason = reason(source);
            assert!(!reason.is_empty() && reason.chars().count() <= REASON_CHARS_MAX + 1, "{reason}");
        }
        let long = format!("{{\"text\":\"{}\"}}", "ü".repeat(100_000));
        assert!(evaluate_of("value.text > 7", &long).unwrap_err().chars().count() <= REASON_CHARS_MAX + 1);
    }

    #[test]
    fn mistakes_are_told_before_anything_is_read() {
        let error = |source: &str| Expression::parse(source).map(|_| source.to_owned()).unwrap_err();
        assert_eq!(error("valeu.a == 1"), ExpressionError::UnknownVariable("valeu".into()));
        assert_eq!(error("value.l.exists(x, y)"), ExpressionError::UnknownVariable("y".into()));
        assert_eq!(error("value.exists(x, true) && x"), ExpressionError::UnknownVariable("x".into()));
        assert_eq!(error("value.a.matches('a')"), ExpressionError::UnknownFunction("matches".into()));
        assert_eq!(error("duration('1s') == value"), ExpressionError::UnknownFunction("duration".into()));
        assert_eq!(error(&"a".repeat(1001)), ExpressionError::TooLong);
        let syntax = error("value.a ==").to_string();
        assert!(syntax.ends_with("at character 11") && !syntax.contains('\n'), "{syntax}");
        let deep = ["(".repeat(400), "!".repeat(900), "[".repeat(900), "value.a(".repeat(100), "-".repeat(1000)];
        let pairs = [
            format!("{}1{}", "(".repeat(400), ")".repeat(400)),
            format!("{}value{}", "[".repeat(400), "]".repeat(400)),
        ];
        let chains = ["value.a ? ".repeat(90), "value.a && ".repeat(90), "{1:".repeat(200), "value[".repeat(150)];
        for source in deep
            .iter()
            .chain(&pairs)
            .chain(&chains)
            .map(String::as_str)
            .chain(["", "1 +", "'", "a.b.", "@step()", "A{b: 1}"])
        {
            assert!(Expression::parse(source).is_err(), "{source}");
        }
    }

    #[test]
    fn loops_take_a_bounded_number_of_steps() {
        let many = format!("{{\"l\":[{}]}}", vec!["1"; 1000].join(","));
        let pair = "value.l.exists(a, value.l.exists(b, a + b == 3))";
        let spent = Err("its loops take too many steps".to_owned());
        assert_eq!(evaluate_of("value.l.all(a, a == 1)", &many), Ok(true));
        assert_eq!(evaluate_of(pair, &many), spent);
        // Operators that pass over errors do not hide it.
        assert_eq!(evaluate_of(&format!("{pair} || true"), &many), spent);
        for source in [
            "value.l.all(a, value.l.all(b, a == b))",
            "value.l.exists_one(a, value.l.exists_one(b, a + b == 3))",
            "size(value.l.filter(a, size(value.l.filter(b, b == a)) > 2)) > 1",
            "value.l.exists(a, value.l.exists(b, value.l.exists(c, value.l.exists(d, a + b + c + d == 9))))",
        ] {
            assert_eq!(evaluate_of(source, &many), spent, "{source}");
        }
        let late = Expression::parse("value.exists(x, x == 'a')").unwrap();
        let late = late.evaluate(vec![("value", value(json_structure("{\"a\":1}").unwrap()))], Instant::now());
        assert_eq!(late, Err("it takes too long".to_owned()));
    }

    #[test]
    fn what_is_put_together_is_bounded_before_that_is_done() {
        let spent = Err("it puts together more than 16 MiB".to_owned());
        let evaluate = |source: &str, key: &str| {
            let expression = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
            let value = value(Structure::Map(vec![("text".to_owned(), Structure::Text(key.to_owned()))]));
            let key = Value::String(Arc::new(key.to_owned()));
            expression.evaluate(vec![("key", key), ("value", value)], Instant::now() + Duration::from_secs(60))
        };
        let (short, long) = ("k".repeat(100), "k".repeat(1 << 20));
        let times = |text: &str, between: &str, count: usize| vec![text; count].join(between);
        for source in [
            format!("{} == 'x'", times("key", "+", 240)),
            format!("size({}) == 1", times("string(key)", "+", 60)),
            format!("[{}] == [1]", times("key", ",", 240)),
            format!("{{{}}} == {{}}", (0..60).map(|i| format!("{i}:value.text")).collect::<Vec<_>>().join(",")),
            format!("value.exists(x, {} == 'x')", times("value[x]", "+", 60)),
            format!("false || {} == 'x'", times("(true?key:'x')", "+", 60)),
        ] {
            assert_eq!(evaluate(&source, &long), spent, "{source}");
            assert_eq!(evaluate(&source, &short), Ok(false), "{source}");
        }
        // What is read and not put together may be as large as it is, and so may what stands beside it.
        for source in ["key == key", "key + 'x' != key + 'y'", "size(key) + 1 == 1048577", "[value.text] == [key]"] {
            assert_eq!(evaluate(source, &long), Ok(true), "{source}");
        }
        let missing = format!("{} == 'x'", times("value.nothing", "+", 70));
        assert_eq!(evaluate(&missing, &long), Err("there is no nothing".to_owned()));
        let numbers = format!("[{}].exists(x, x + x == 4)", times("2", ",", 300));
        assert_eq!(evaluate(&numbers, &long), Ok(true));
    }

    #[test]
    fn nothing_doubles_with_each_loop() {
        let error = |source: &str| Expression::parse(source).map(|_| ()).unwrap_err();
        let nested = format!("{}true{}", "[key + key].exists(key, ".repeat(20), ")".repeat(20));
        for source in [
            &nested,
            "[[key, key]].exists(x, true)",
            "(value.a + value.a).exists(x, true)",
            "{'a': value}.exists(x, true)",
        ] {
            assert_eq!(error(source), ExpressionError::PutTogether, "{source}");
        }
        for source in [
            "value.a.map(x, x + x).exists(y, y)",
            "value.a.map(x, x > 1, [x, x]).exists(y, y)",
            "value.map(x, x) == []",
        ] {
            assert_eq!(error(source), ExpressionError::Map, "{source}");
        }
        assert!(Expression::parse("[key + key, value.a] == value.b").is_ok());
    }
}
