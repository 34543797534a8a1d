//! Requests that are made up field by field: what tests of the cost of requests are made of.
//!
//! [`message!`](crate::message) knows the fields of each message and their versions, so that no test has to: a new API,
//! version or field is covered by being declared.

use bytes::Bytes;

use crate::codec::{Message, TaggedOption};
use crate::{ErrorCode, Records, Uuid};

/// What the fields are given, by their names.
pub trait Values {
    fn text(&self, field: &'static str) -> String;
    fn number(&self, field: &'static str) -> i64;
    fn bytes(&self, field: &'static str) -> Bytes;
    fn id(&self, field: &'static str) -> Uuid;
}

/// Makes messages of one version in which one array has many equal elements and each other array has one.
pub struct Sampler<'a> {
    version: i16,
    values: &'a dyn Values,
    /// The index of the long array among the arrays of the message.
    long: usize,
    count: usize,
    /// The arrays that were met.
    arrays: usize,
    field: &'static str,
}

impl<'a> Sampler<'a> {
    pub fn new(version: i16, values: &'a dyn Values, long: usize, count: usize) -> Self {
        Self { version, values, long, count, arrays: 0, field: "" }
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    /// How many arrays the message has that was made.
    pub fn arrays(&self) -> usize {
        self.arrays
    }

    /// What follows is the value of this field.
    pub fn enter(&mut self, field: &'static str) {
        self.field = field;
    }
}

/// A value that can be made up.
pub trait Sample: Sized {
    fn sample(s: &mut Sampler<'_>) -> Self;
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Sample for $ty {
            fn sample(s: &mut Sampler<'_>) -> Self {
                s.values.number(s.field) as $ty
            }
        }
    )*};
}

numbers!(i8 i16 i32 i64 u16 u32 f64);

impl Sample for bool {
    fn sample(s: &mut Sampler<'_>) -> Self {
        s.values.number(s.field) != 0
    }
}

impl Sample for ErrorCode {
    fn sample(s: &mut Sampler<'_>) -> Self {
        Self(i16::sample(s))
    }
}

impl Sample for Uuid {
    fn sample(s: &mut Sampler<'_>) -> Self {
        s.values.id(s.field)
    }
}

impl Sample for String {
    fn sample(s: &mut Sampler<'_>) -> Self {
        s.values.text(s.field)
    }
}

impl Sample for Bytes {
    fn sample(s: &mut Sampler<'_>) -> Self {
        s.values.bytes(s.field)
    }
}

impl Sample for Records {
    fn sample(s: &mut Sampler<'_>) -> Self {
        Self::Inline(Bytes::sample(s))
    }
}

impl<T: Sample + Clone> Sample for Vec<T> {
    fn sample(s: &mut Sampler<'_>) -> Self {
        let count = if s.arrays == s.long { s.count } else { 1 };
        s.arrays += 1;
        vec![T::sample(s); count]
    }
}

macro_rules! optional {
    ($($ty:ty)*) => {$(
        impl Sample for Option<$ty> {
            fn sample(s: &mut Sampler<'_>) -> Self {
                Some(<$ty>::sample(s))
            }
        }
    )*};
}

optional!(String Bytes Records);

impl<T: Sample + Clone> Sample for Option<Vec<T>> {
    fn sample(s: &mut Sampler<'_>) -> Self {
        Some(Vec::sample(s))
    }
}

impl<T: Message> Sample for Option<T> {
    fn sample(s: &mut Sampler<'_>) -> Self {
        Some(T::sample(s))
    }
}

impl<T: Message> Sample for TaggedOption<T> {
    fn sample(s: &mut Sampler<'_>) -> Self {
        Self(Some(T::sample(s)))
    }
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro declares public structs")]
mod tests {
    use super::*;
    use crate::message;

    message! {
        pub struct Outer {
            name: String, 0..;
            old: Vec<i32>, 0..=1;
            inner: Vec<Inner>, 1..;
        }

        pub struct Inner {
            index: i32, 0..;
            ids: Option<Vec<Uuid>>, 2..;
        }
    }

    struct Plain;

    impl Values for Plain {
        fn text(&self, field: &'static str) -> String {
            field.to_owned()
        }

        fn number(&self, field: &'static str) -> i64 {
            field.len() as i64
        }

        fn bytes(&self, _: &'static str) -> Bytes {
            Bytes::new()
        }

        fn id(&self, _: &'static str) -> Uuid {
            Uuid([1; 16])
        }
    }

    #[test]
    fn one_array_is_long_and_the_fields_are_those_of_the_version() {
        let sample = |version, long| {
            let mut s = Sampler::new(version, &Plain, long, 3);
            let outer = Outer::sample(&mut s);
            (s.arrays(), outer)
        };
        let inner = |ids: Option<usize>| Inner { index: 5, ids: ids.map(|count| vec![Uuid([1; 16]); count]) };
        let outer = |old: &[i32], inner| Outer { name: "name".into(), old: old.to_vec(), inner };
        assert_eq!(sample(0, 0), (1, outer(&[3, 3, 3], vec![])));
        assert_eq!(sample(1, 0), (2, outer(&[3, 3, 3], vec![inner(None)])));
        assert_eq!(sample(2, 0), (2, outer(&[], vec![inner(Some(1)), inner(Some(1)), inner(Some(1))])));
        assert_eq!(sample(2, 1), (2, outer(&[], vec![inner(Some(3))])));
    }
}
