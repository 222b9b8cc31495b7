// SPDX-License-Identifier: GPL-2.0

//! Work items and the lock-free list that a worker drains.
//!
//! A [`Work`] is embedded in a reference-counted object. [`WorkRef`] names one such item, whatever
//! the type of the object around it, and owns a reference on that object. Queueing an item takes
//! one more reference, which the worker gives up after it ran the item; so an object can't go away
//! while its work is queued, and nobody has to remember to flush first.
//!
//! The list is the kernel's `llist`: any context may add, only the worker takes, and it takes all
//! at once. The items of one such batch run in the order in which they were queued (FIFO).
//!
//! C header: [`include/linux/llist.h`](srctree/include/linux/llist.h)

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    sync::{
        atomic::{
            ordering,
            AtomicFlag, //
        },
        Arc, //
    },
    types::Opaque, //
};
use vhost_bindings as ours;

/// What the code of this file may do with a type-erased work item.
///
/// # Invariants
///
/// The functions belong to the type of the object in which the [`Link`] that holds this table is
/// embedded.
struct Ops {
    /// Runs the item and gives up one reference on its object.
    run: unsafe fn(NonNull<Link>),
    /// Takes one more reference on the object.
    get: unsafe fn(NonNull<Link>),
    /// Gives up one reference on the object.
    put: unsafe fn(NonNull<Link>),
}

/// The part of a work item that doesn't depend on the object around it.
#[repr(C)]
struct Link {
    node: Opaque<bindings::llist_node>,
    /// Set while the item is on a list; whoever sets it owns `node` until the worker clears it.
    queued: AtomicFlag,
    ops: &'static Ops,
}

/// A work item, to be embedded in an object that is kept in an [`Arc`].
///
/// `ID` tells several items of one object apart.
///
/// # Invariants
///
/// `link.ops` is the table for `T` and `ID`.
#[repr(transparent)]
pub struct Work<T, const ID: u64> {
    link: Link,
    _owner: PhantomData<Arc<T>>,
}

// SAFETY: A `Work` gives out nothing of the object around it but references through `Arc`, which
// asks for `Send` and `Sync` itself; `node` is only touched by the owner of `queued`.
unsafe impl<T: Send + Sync, const ID: u64> Send for Work<T, ID> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync, const ID: u64> Sync for Work<T, ID> {}

impl<T: WorkItem<ID>, const ID: u64> Work<T, ID> {
    const OPS: Ops = Ops {
        run: Self::run,
        get: Self::get,
        put: Self::put,
    };

    /// Creates an item that is not queued.
    #[inline]
    pub fn new() -> Self {
        // INVARIANT: `OPS` is the table for `T` and `ID`.
        Self {
            link: Link {
                node: Opaque::uninit(),
                queued: AtomicFlag::new(false),
                ops: &Self::OPS,
            },
            _owner: PhantomData,
        }
    }

    /// Finds the object around an item.
    ///
    /// # Safety
    ///
    /// `link` must be embedded in a `Work<T, ID>` that is the field named by `T`'s [`HasWork`]
    /// implementation of a live `T`.
    unsafe fn object(link: NonNull<Link>) -> *const T {
        // CAST: `Work` is a transparent wrapper of `Link`.
        // SAFETY: By the safety requirements, `link` lies in the field that `T` names.
        unsafe { T::work_container_of(link.as_ptr().cast()) }
    }

    /// # Safety
    ///
    /// As for [`Self::object`], and the caller gives up one reference on the object.
    unsafe fn run(link: NonNull<Link>) {
        // SAFETY: The object is the pointee of an `Arc` by `WorkRef::new`, and the caller owns one
        // reference, which passes to the new `Arc`.
        T::run(unsafe { Arc::from_raw(Self::object(link)) });
    }

    /// # Safety
    ///
    /// As for [`Self::object`], and the caller holds a reference on the object.
    unsafe fn get(link: NonNull<Link>) {
        // SAFETY: As in `run`, but `ManuallyDrop` leaves the caller's reference alone.
        let object = ManuallyDrop::new(unsafe { Arc::from_raw(Self::object(link)) });
        let _ = ManuallyDrop::new(Arc::clone(&object));
    }

    /// # Safety
    ///
    /// As for [`Self::run`].
    unsafe fn put(link: NonNull<Link>) {
        // SAFETY: As in `run`.
        drop(unsafe { Arc::from_raw(Self::object(link)) });
    }
}

impl<T: WorkItem<ID>, const ID: u64> Default for Work<T, ID> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

/// Says where in an object its work item `ID` is. Implement it with [`impl_has_work!`].
///
/// # Safety
///
/// The two functions must be each other's inverse: they convert between a pointer to the object
/// and a pointer to one and the same field of type `Work<Self, ID>`.
pub unsafe trait HasWork<const ID: u64>: Sized {
    /// Returns the item of an object.
    ///
    /// # Safety
    ///
    /// `this` must point to a live object.
    unsafe fn raw_work(this: *const Self) -> *mut Work<Self, ID>;

    /// Returns the object of an item.
    ///
    /// # Safety
    ///
    /// `work` must point to the item of a live object.
    unsafe fn work_container_of(work: *mut Work<Self, ID>) -> *const Self;
}

/// Implements [`HasWork`] for a field of a type.
#[macro_export]
macro_rules! impl_has_work {
    ($(impl HasWork<$id:tt> for $t:ident { self.$field:ident })*) => {$(
        // SAFETY: Both functions convert between the object and its field `$field`, whose type
        // the compiler checks.
        unsafe impl $crate::work::HasWork<$id> for $t {
            #[inline]
            unsafe fn raw_work(this: *const Self) -> *mut $crate::work::Work<Self, $id> {
                // SAFETY: The caller promises that `this` points to a live object.
                unsafe { ::core::ptr::addr_of!((*this).$field).cast_mut() }
            }

            #[inline]
            unsafe fn work_container_of(
                work: *mut $crate::work::Work<Self, $id>,
            ) -> *const Self {
                // SAFETY: The caller promises that `work` is the field of a live object.
                unsafe { ::kernel::container_of!(work, Self, $field) }
            }
        }
    )*};
}

/// An object with something to do on a worker.
pub trait WorkItem<const ID: u64>: HasWork<ID> + Send + Sync + 'static {
    /// Does the work.
    ///
    /// Context: the worker's thread, with the owner's address space; may sleep. The item may be
    /// queued again at any time, also by itself: it then runs once more, behind what was queued in
    /// between.
    fn run(this: Arc<Self>);
}

/// Names one work item and owns a reference on the object around it.
///
/// # Invariants
///
/// `self.0` points to the link of an item whose object is kept in an `Arc`, on which `self` owns a
/// reference.
pub struct WorkRef(NonNull<Link>);

// SAFETY: `WorkItem` asks that the object be `Send` and `Sync`, so that a reference on it may be
// used and given up by any thread.
unsafe impl Send for WorkRef {}
// SAFETY: As above; `&WorkRef` allows only to clone it and to queue the item, both of which are
// atomic operations.
unsafe impl Sync for WorkRef {}

impl WorkRef {
    /// Names the item `ID` of `object`.
    #[inline]
    pub fn new<T: WorkItem<ID>, const ID: u64>(object: Arc<T>) -> Self {
        let object = Arc::into_raw(object);
        // SAFETY: `object` was an `Arc` a line ago, so it is live. The field of a live object is
        // at no null address.
        // CAST: `Work` is a transparent wrapper of `Link`.
        // INVARIANT: The reference of the `Arc` passes to the new value.
        Self(unsafe { NonNull::new_unchecked(T::raw_work(object).cast()) })
    }

    #[inline]
    fn link(&self) -> &Link {
        // SAFETY: By the type invariants, the object around the link lives as long as `self`.
        unsafe { self.0.as_ref() }
    }

    /// Gives up ownership of the reference and returns the list node.
    #[inline]
    fn into_node(self) -> *mut bindings::llist_node {
        // CAST: `node` is the first field of `Link`, which is `repr(C)`, and `Opaque` is
        // transparent. So is the way back, which needs a pointer to all of the object.
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    /// Takes the reference back that [`Self::into_node`] had given up.
    ///
    /// # Safety
    ///
    /// `node` must come from `into_node`, and no other `WorkRef` must have been made of that call.
    #[inline]
    unsafe fn from_node(node: NonNull<bindings::llist_node>) -> Self {
        // CAST: `node` is the first field of `Link`, which is `repr(C)`, and `Opaque` is
        // transparent.
        // INVARIANT: By the safety requirements, the reference now belongs to the new value.
        Self(node.cast())
    }

    /// Runs the item.
    #[inline]
    fn run(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariants, the link is that of a live object, whose type `ops`
        // belongs to; the reference that `this` owned passes to the callee.
        unsafe { (this.link().ops.run)(this.0) };
    }
}

impl Clone for WorkRef {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants, the link is that of a live object, whose type `ops`
        // belongs to, and `self` holds a reference.
        unsafe { (self.link().ops.get)(self.0) };
        // INVARIANT: A reference was taken for the new value.
        Self(self.0)
    }
}

impl Drop for WorkRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants, the link is that of a live object, whose type `ops`
        // belongs to, and `self` owns the reference that is given up here.
        unsafe { (self.link().ops.put)(self.0) };
    }
}

/// A lock-free list of queued work items.
///
/// # Invariants
///
/// Every node on the list comes from [`WorkRef::into_node`], and its item's `queued` flag is set.
pub(crate) struct WorkList(Opaque<bindings::llist_head>);

// SAFETY: What is on the list is as good as a `WorkRef`, which is `Send`.
unsafe impl Send for WorkList {}
// SAFETY: The `llist` operations used here may run at the same time on any CPU.
unsafe impl Sync for WorkList {}

impl WorkList {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        let empty = bindings::llist_head {
            first: core::ptr::null_mut(),
        };
        Self(Opaque::new(empty))
    }

    /// Puts an item on the list, unless it is on a list already; returns whether it did.
    ///
    /// Context: any. A full barrier orders what the caller wrote before against the run of the
    /// item, also when the item was queued already and has not started yet.
    #[inline]
    pub(crate) fn add(&self, work: &WorkRef) -> bool {
        // ORDERING: Full, so that the list is written after the flag was won, and so that a caller
        // who loses knows that the coming run sees what it wrote; pairs with `Batch::next()`.
        if work.link().queued.xchg(true, ordering::Full) {
            return false;
        }
        let node = work.clone().into_node();
        // SAFETY: The flag was clear and is ours now, so the node is on no list.
        unsafe { ours::kext_llist_add(node, self.0.get()) };
        true
    }

    /// Tells whether the list is empty, without any ordering: the answer may be stale both ways.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: The head is valid for as long as `self` is.
        unsafe { ours::kext_llist_empty(self.0.get()) }
    }

    /// Takes all items off the list, oldest first.
    #[inline]
    pub(crate) fn take(&self) -> Batch {
        // SAFETY: The head is valid for as long as `self` is. Taking the whole list may race with
        // additions.
        let newest = unsafe { ours::kext_llist_del_all(self.0.get()) };
        // SAFETY: The nodes that were taken belong to nobody else now.
        // INVARIANT: By the type invariants, each of them comes from `into_node`.
        Batch(unsafe { bindings::llist_reverse_order(newest) })
    }
}

impl Drop for WorkList {
    fn drop(&mut self) {
        // What was queued and never ran only gives up its references.
        self.take().for_each(drop);
    }
}

/// The items that [`WorkList::take`] took, oldest first.
///
/// # Invariants
///
/// `self.0` is null or the first node of a chain of nodes that come from [`WorkRef::into_node`].
pub(crate) struct Batch(*mut bindings::llist_node);

impl Batch {
    /// Runs every item; `after` is called behind each one.
    #[inline]
    pub(crate) fn run(self, mut after: impl FnMut()) {
        for work in self {
            work.run();
            after();
        }
    }

    /// Tells whether nothing was taken.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_null()
    }
}

impl Iterator for Batch {
    type Item = WorkRef;

    #[inline]
    fn next(&mut self) -> Option<WorkRef> {
        let node = NonNull::new(self.0)?;
        // SAFETY: By the type invariants, the node belongs to a queued item, whose object is kept
        // by the reference that went with the node; nobody but us follows `next` until `queued` is
        // cleared below.
        self.0 = unsafe { (*node.as_ptr()).next };
        // SAFETY: By the type invariants, the node comes from `into_node`, and it is no longer
        // part of the chain.
        let work = unsafe { WorkRef::from_node(node) };
        // ORDERING: Full. Before it, `next` was read, which changes once somebody queues the item
        // again. After it comes the run: who found the flag set, and so didn't queue the item,
        // relies on the run seeing what was written before; pairs with `add()`.
        work.link().queued.xchg(false, ordering::Full);
        Some(work)
    }
}
