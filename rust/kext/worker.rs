// SPDX-License-Identifier: GPL-2.0

//! The worker: a kernel thread that lives in its owner's address space and runs work items.
//!
//! The thread is named `vhost-<pid>` after the task that asked for it, borrows that task's `mm`
//! and joins its control groups, so that an operator finds it, pins it and accounts for it as for
//! any other thread of the owner. It takes the whole list at once, runs the items in FIFO order
//! and offers to reschedule after each.
//!
//! C twin: `vhost_worker_create()`, `vhost_run_work_kthread_list()`.

use crate::{
    impl_has_work,
    work::{
        Work,
        WorkItem,
        WorkList,
        WorkRef, //
    }, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    mm::MmWithUser,
    new_condvar,
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            ordering,
            Atomic, //
        },
        Arc,
        Completion,
        CondVar,
        Mutex,
        SetOnce, //
    },
    task::Task, //
};
use vhost_bindings as ours;

/// Where the tasks that wake a worker and the worker itself meet.
struct Shared {
    list: WorkList,
    /// The worker's task, set before the thread runs for the first time. It is referenced, so that
    /// a wake-up that comes late touches a live `task_struct` even after the thread has exited.
    task: SetOnce<ARef<Task>>,
}

/// A handle for queueing work; it may be cloned and used from any context.
///
/// It keeps neither the worker's thread running nor its address space alive. What is queued when
/// the thread is stopped may not run any more; it is let go with the last handle. An object that
/// holds a handle and is queued through it then keeps itself alive: its owner has to take the
/// handle away from it.
#[derive(Clone)]
pub struct WorkQueue(Arc<Shared>);

impl WorkQueue {
    /// Queues an item behind all others and wakes the worker, unless the item is queued already.
    ///
    /// Context: any, also hard interrupts. The item's run sees all that the caller wrote before,
    /// whether or not the item was queued already.
    #[inline]
    pub fn queue(&self, work: &WorkRef) {
        if self.0.list.add(work) {
            if let Some(task) = self.0.task.as_ref() {
                task.wake_up();
            }
        }
    }

    /// Says whether there seems to be queued work. **A hint**: it looks at the list without a lock
    /// and without a barrier, so it may be stale both ways.
    ///
    /// It is there for a loop that would like to end early when others wait. Nothing that must be
    /// right may rest on it: a `false` doesn't promise that the worker may sleep, a `true` doesn't
    /// promise that there is something to run.
    ///
    /// C twin: `vhost_vq_has_work()`.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.0.list.is_empty()
    }
}

/// What a new thread is given.
#[pin_data]
struct Start {
    mm: ARef<MmWithUser>,
    /// The task whose control groups the thread joins.
    owner: ARef<Task>,
    shared: Arc<Shared>,
    /// What joining the control groups returned; valid once `joined` is complete.
    result: Atomic<i32>,
    #[pin]
    joined: Completion,
}

impl Start {
    fn new(mm: ARef<MmWithUser>, owner: ARef<Task>) -> Result<Arc<Self>> {
        let shared = Shared {
            list: WorkList::new(),
            task: SetOnce::new(),
        };
        let shared = Arc::new(shared, GFP_KERNEL)?;
        let start = pin_init!(Self {
            mm,
            owner,
            shared,
            result: Atomic::new(0),
            joined <- Completion::new(),
        });
        Arc::pin_init(start, GFP_KERNEL)
    }

    /// Creates the thread; it sleeps until it is woken for the first time.
    fn create_thread(self: &Arc<Self>) -> Result<ARef<Task>> {
        let data = Arc::into_raw(self.clone());
        // SAFETY: `thread_main` takes over the reference that `data` carries when it runs. The
        // format has one argument, an `int`.
        let task = unsafe {
            bindings::kthread_create_on_node(
                Some(thread_main),
                data.cast_mut().cast(),
                bindings::NUMA_NO_NODE,
                c"vhost-%d".as_char_ptr(),
                self.owner.pid(),
            )
        };
        let task = from_err_ptr(task).inspect_err(|_| {
            // SAFETY: There is no thread, so the reference is still ours.
            drop(unsafe { Arc::from_raw(data) });
        })?;
        // SAFETY: A created kthread lives at least until it is woken, which nobody but us does;
        // `Task` is a transparent wrapper of `task_struct`.
        Ok(ARef::from(unsafe { &*task.cast::<Task>() }))
    }
}

/// A running worker thread. Dropping it stops the thread and waits until it has exited; so it must
/// not be dropped by a work item that runs on that very thread.
///
/// # Invariants
///
/// `self.task` is a kthread that runs [`thread_main`] until `self` is dropped.
pub struct Worker {
    task: ARef<Task>,
    queue: WorkQueue,
    flush: Arc<Flush>,
}

impl Worker {
    /// Starts a worker for the current task.
    ///
    /// `mm` is the address space that the thread borrows.
    ///
    /// Context: process context, may sleep.
    ///
    /// C twin: `vhost_worker_create()`.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`, `EINTR`: the thread could not be created, or the current task was killed.
    /// - What `cgroup_attach_task_all()` returns, where the thread can't join the control groups.
    pub fn spawn(mm: ARef<MmWithUser>) -> Result<Self> {
        let owner: &Task = current!();
        let start = Start::new(mm, ARef::from(owner))?;
        let flush = Arc::pin_init(Flush::new(), GFP_KERNEL)?;
        let task = start.create_thread()?;
        start.shared.task.populate(task.clone());
        // INVARIANT: The thread was created, and its first wake-up is below; until it has run,
        // nothing that may fail comes between.
        let this = Self {
            task,
            queue: WorkQueue(start.shared.clone()),
            flush,
        };
        this.task.wake_up();
        start.joined.wait_for_completion();
        // Where the result is an error, dropping `this` stops the thread again.
        to_result(start.result.load(ordering::Relaxed)).map(|()| this)
    }

    /// Returns a handle for queueing work to this worker.
    #[inline]
    pub fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    /// Waits until all that was queued before the call has run.
    ///
    /// Context: process context, may sleep; not on the worker's own thread, and not under a lock
    /// that a work item takes.
    ///
    /// C twin: `vhost_dev_flush()`.
    pub fn flush(&self) {
        let _one_at_a_time = self.flush.turn.lock();
        *self.flush.done.lock() = false;
        self.queue.queue(&WorkRef::new::<_, 0>(self.flush.clone()));
        let mut done = self.flush.done.lock();
        while !*done {
            self.flush.changed.wait(&mut done);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: By the type invariants, this is a kthread that has not exited; it has started to
        // run its function, because `spawn()` waited for that.
        unsafe { bindings::kthread_stop(self.task.as_ptr()) };
    }
}

/// The work item behind [`Worker::flush`]: it has run when all older ones have.
#[pin_data]
struct Flush {
    #[pin]
    work: Work<Self, 0>,
    /// Held by the one task whose flush is under way.
    #[pin]
    turn: Mutex<()>,
    #[pin]
    done: Mutex<bool>,
    #[pin]
    changed: CondVar,
}

impl Flush {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            work: Work::new(),
            turn <- new_mutex!((), "Flush::turn"),
            done <- new_mutex!(false, "Flush::done"),
            changed <- new_condvar!("Flush::changed"),
        })
    }
}

impl_has_work! {
    impl HasWork<0> for Flush { self.work }
}

impl WorkItem<0> for Flush {
    fn run(this: Arc<Self>) {
        *this.done.lock() = true;
        this.changed.notify_all();
    }
}

/// An address space borrowed by the current kernel thread.
///
/// # Invariants
///
/// `kthread_use_mm()` was called on the current thread with `self.0`.
struct BorrowedMm<'a>(&'a MmWithUser, kernel::types::NotThreadSafe);

impl<'a> BorrowedMm<'a> {
    /// # Safety
    ///
    /// The current task must be a kthread without an address space.
    unsafe fn new(mm: &'a MmWithUser) -> Self {
        // SAFETY: The caller promises that this is a kthread without an `mm`; `mm` has users by
        // its type.
        unsafe { bindings::kthread_use_mm(mm.as_raw()) };
        // INVARIANT: See the call above.
        Self(mm, kernel::types::NotThreadSafe)
    }
}

impl Drop for BorrowedMm<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants, this thread uses that `mm`.
        unsafe { bindings::kthread_unuse_mm(self.0.as_raw()) };
    }
}

/// The function of the worker's thread.
///
/// # Safety
///
/// The thread must have been created by [`Start::create_thread`] with the reference in `data`.
unsafe extern "C" fn thread_main(data: *mut c_void) -> c_int {
    // SAFETY: `create_thread()` passes one reference on to this function.
    let start = unsafe { Arc::from_raw(data.cast_const().cast::<Start>()) };
    // SAFETY: A kthread that was just started has no address space.
    let _mm = unsafe { BorrowedMm::new(&start.mm) };
    // SAFETY: Both tasks are live: one is referenced, the other one is running this.
    let joined =
        unsafe { bindings::cgroup_attach_task_all(start.owner.as_ptr(), Task::current_raw()) };
    // ORDERING: The completion orders this for the task that waits for it.
    start.result.store(joined, ordering::Relaxed);
    start.joined.complete_all();
    run_until_stopped(&start.shared.list);
    0
}

fn run_until_stopped(list: &WorkList) {
    loop {
        // SAFETY: The current task may say of itself that it is about to sleep. The barrier within
        // orders this against the two looks below; pairs with those in `kthread_stop()` and in
        // `wake_up_process()`: either we see what they did, or they wake us.
        unsafe { ours::kext_set_current_state(bindings::TASK_INTERRUPTIBLE) };
        // SAFETY: This is a kthread.
        if unsafe { bindings::kthread_should_stop() } {
            break;
        }
        let batch = list.take();
        if batch.is_empty() {
            // SAFETY: Process context, and no lock is held.
            unsafe { bindings::schedule() };
            continue;
        }
        set_running();
        batch.run(|| {
            // SAFETY: Process context, and no lock is held.
            unsafe { ours::kext_cond_resched() };
        });
    }
    set_running();
}

fn set_running() {
    // SAFETY: The current task may always say of itself that it is running.
    unsafe { ours::kext_set_running() };
}
