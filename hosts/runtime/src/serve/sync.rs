//! The primitives that threads share: the standard library's, and in unit tests shuttle's, which controls the schedule.

#[cfg(not(test))]
pub(super) use alloc::sync::Arc;
#[cfg(not(test))]
pub(super) use core::sync::atomic;
#[cfg(test)]
pub(super) use shuttle::sync::{Arc, Mutex, atomic};
#[cfg(not(test))]
pub(super) use std::sync::{Mutex, mpsc};

/// Shuttle's channels. As in the standard library, dropping the receiver drops the queued messages.
#[cfg(test)]
pub(super) mod mpsc {
    use core::ops::Deref;
    pub(in crate::serve) use shuttle::sync::mpsc::Sender;

    pub(in crate::serve) struct Receiver<T>(shuttle::sync::mpsc::Receiver<T>);

    pub(in crate::serve) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = shuttle::sync::mpsc::channel();
        (sender, Receiver(receiver))
    }

    impl<T> Deref for Receiver<T> {
        type Target = shuttle::sync::mpsc::Receiver<T>;

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            while self.0.try_recv().is_ok() {}
        }
    }
}
