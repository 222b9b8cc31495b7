// SPDX-License-Identifier: GPL-2.0

//! Records every touch of guest memory, fails chosen ones, and lets the guest act between two.

use std::cell::{Cell, RefCell};

use vring::Part;

/// What the device did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A 16-bit load at an offset.
    Load(Where, usize),
    /// A 16-bit store into the used part.
    Store(usize),
    /// A copy of `(offset, length)` out of a part.
    Read(Where, usize, usize),
    /// A copy of `(offset, length)` into the used part.
    Write(usize, usize),
    /// A copy of `(user address, length)` out of guest memory.
    GuestRead(u64, usize),
    /// A translation of `(guest address, length)`.
    Translate(u64, u32),
    /// A read barrier.
    Rmb,
    /// A write barrier.
    Wmb,
    /// A full barrier.
    Mb,
}

impl Event {
    /// Whether this is an access that can fault.
    pub fn is_access(&self) -> bool {
        !matches!(self, Self::Rmb | Self::Wmb | Self::Mb | Self::Translate(..))
    }
}

/// `vring::Part`, but comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Descriptor table.
    Desc,
    /// Driver area.
    Avail,
    /// Device area.
    Used,
}

impl From<Part> for Where {
    fn from(part: Part) -> Self {
        match part {
            Part::Desc => Self::Desc,
            Part::Avail => Self::Avail,
            Part::Used => Self::Used,
        }
    }
}

/// Called before each step with its number since the last [`Probe::begin`].
pub type Hook = Box<dyn FnMut(u32)>;

/// The watcher between the device and guest memory.
#[derive(Default)]
pub struct Probe {
    step: Cell<u32>,
    fail_at: Cell<Option<u32>>,
    fired: Cell<bool>,
    trace: RefCell<Vec<Event>>,
    hook: RefCell<Option<Hook>>,
}

impl Probe {
    /// Starts a new call: forgets the trace, the fault and the hook.
    pub fn begin(&self) {
        self.step.set(0);
        self.fail_at.set(None);
        self.fired.set(false);
        self.trace.borrow_mut().clear();
        self.hook.replace(None);
    }

    /// Makes the access at this step, or the first one after it, fault once.
    pub fn fail_at(&self, step: u32) {
        self.fail_at.set(Some(step));
    }

    /// Lets the guest act before each step.
    pub fn set_hook(&self, hook: Hook) {
        self.hook.replace(Some(hook));
    }

    /// Whether the fault asked for has happened.
    pub fn fired(&self) -> bool {
        self.fired.get()
    }

    /// What the device did since [`Probe::begin`], without the access that faulted.
    pub fn trace(&self) -> Vec<Event> {
        self.trace.borrow().clone()
    }

    /// Takes note of a step; `None` if it has to fault.
    pub fn touch(&self, event: Event) -> Option<()> {
        let step = self.step.get();
        self.step.set(step + 1);
        // The hook may itself use the ring, so it must not be borrowed while it runs.
        let hook = self.hook.take();
        if let Some(mut hook) = hook {
            hook(step);
            self.hook.replace(Some(hook));
        }
        if event.is_access() && self.fail_at.get().is_some_and(|at| step >= at) {
            self.fail_at.set(None);
            self.fired.set(true);
            return None;
        }
        self.trace.borrow_mut().push(event);
        Some(())
    }
}
