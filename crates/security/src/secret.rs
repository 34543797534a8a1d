//! What logs must not show, and memory must not keep.

use std::fmt;

use zeroize::Zeroize;

/// A password, a key or what is derived from one: a text, or bytes. Not shown by `Debug`, wiped when it is dropped.
///
/// `==` is for settings that may have changed. What a stranger sends is compared in constant time, by who checks it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: Zeroize = String>(T);

impl<T: Zeroize> Secret<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for use and not for keeping.
    pub fn expose(&self) -> &T {
        &self.0
    }

    pub(crate) fn expose_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn nothing_is_shown() {
        let shown = format!("{:?} {:?}", Secret::new("pencil".to_owned()), Secret::new(vec![0xab, 0xcd]));
        assert_eq!(shown, "[hidden] [hidden]");
    }

    #[test]
    fn what_is_dropped_is_wiped() {
        struct Watched(Rc<RefCell<Vec<u8>>>);
        impl Zeroize for Watched {
            fn zeroize(&mut self) {
                self.0.borrow_mut().zeroize();
            }
        }
        let bytes = Rc::new(RefCell::new(b"pencil".to_vec()));
        drop(Secret::new(Watched(Rc::clone(&bytes))));
        assert!(bytes.borrow().is_empty());
    }
}
