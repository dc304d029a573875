//! Tasks: futures that the world polls when they are woken, in an order that the seed chooses.
//!
//! Site code is `async`, but a transaction's procedure is plain code that runs to its end in one
//! poll. On real threads, two procedures at one site overlap, which could cause anomalies. So each
//! client has a **stack** of its own: its procedure can be paused, other tasks and procedures run,
//! and it continues where it was.
//!
//! ```text
//!   client 1   poll ─▶ execute ─▶ procedure: read 5 ─ pause ┄┄┄┄┄┄┄┄┄┄┄┄┄┄ write 5 ─▶ commit
//!   client 2                      poll ─▶ execute ─▶ read 5 ─▶ waits for the lock
//! ```

use super::World;
use super::agenda::Event;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use isomer_design::{SiteId, Time};
use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A task of the world.
pub type TaskId = u64;

type Routine<'f> = Pin<Box<dyn Future<Output = ()> + 'f>>;

const STACK_BYTES: usize = 1 << 20;

/// A task's own stack, on which it can be paused anywhere.
#[derive(Clone, Copy)]
pub struct Stack<'y>(&'y Yielder<(), ()>);

/// See the [module documentation](self).
#[derive(Default)]
pub(super) struct Tasks {
    tasks: RefCell<Table>,
    ready: Arc<Ready>,
    current: Cell<TaskId>,
}

/// Tasks by their numbers: a slot, and how many times the slot was used before. The slots of tasks
/// that have ended are reused, so memory is bounded by the number of concurrent tasks.
#[derive(Default)]
struct Table {
    places: Vec<(u32, Option<Task>)>,
    free: Vec<u32>,
}

impl Table {
    /// Takes a slot for a task.
    fn take_id(&mut self) -> TaskId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        u64::from(self.places[place as usize].0) << 32 | u64::from(place)
    }

    /// Puts a task into its slot.
    fn put(&mut self, id: TaskId, task: Task) {
        self.places[id as u32 as usize].1 = Some(task);
    }

    fn get(&self, id: &TaskId) -> Option<&Task> {
        let (used, task) = self.places.get(*id as u32 as usize)?;
        task.as_ref().filter(|_| u64::from(*used) == id >> 32)
    }

    fn get_mut(&mut self, id: &TaskId) -> Option<&mut Task> {
        let (used, task) = self.places.get_mut(*id as u32 as usize)?;
        task.as_mut().filter(|_| u64::from(*used) == id >> 32)
    }

    fn remove(&mut self, id: &TaskId) -> Option<Task> {
        self.get(id)?;
        let (used, task) = &mut self.places[*id as u32 as usize];
        *used += 1;
        self.free.push(*id as u32);
        task.take()
    }

    fn iter(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        let id = |place: u32, used: u32| u64::from(used) << 32 | u64::from(place);
        let places = (0..).zip(&self.places);
        places.filter_map(move |(place, (used, task))| Some((id(place, *used), task.as_ref()?)))
    }
}

struct Task {
    name: String,
    waker: Arc<TaskWaker>,
    /// Taken out while it is polled.
    body: Option<Body>,
    /// Its procedure is paused.
    paused: bool,
    /// It was woken while it was paused.
    missed: bool,
    /// Its current activity, to explain why a run hangs.
    doing: String,
    /// The site, with its run, at which the procedure runs.
    place: Option<(SiteId, u64)>,
}

enum Body {
    Plain(Routine<'static>),
    OnStack(Coroutine<(), (), ()>),
}

#[derive(Default)]
struct Ready(Mutex<VecDeque<TaskId>>);

struct TaskWaker {
    id: TaskId,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<TaskWaker>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.0.lock().push_back(self.id);
        }
    }
}

impl World {
    /// Starts a task.
    pub fn spawn(&self, name: String, future: impl Future<Output = ()> + 'static) -> TaskId {
        self.enter(name, |_| Body::Plain(Box::pin(future)))
    }

    /// Starts a task on a stack of its own.
    pub fn spawn_on_stack(
        &self,
        name: String,
        make: impl for<'y> FnOnce(Stack<'y>) -> Routine<'y> + 'static,
    ) -> TaskId {
        self.enter(name, |waker| {
            let stack = DefaultStack::new(STACK_BYTES).expect("the system has room for a stack");
            Body::OnStack(Coroutine::with_stack(stack, move |yielder, ()| {
                let mut routine = make(Stack(yielder));
                while routine.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    yielder.suspend(());
                }
            }))
        })
    }

    fn enter(&self, name: String, body: impl FnOnce(Waker) -> Body) -> TaskId {
        let id = self.tasks.tasks.borrow_mut().take_id();
        let ready = self.tasks.ready.clone();
        let waker = Arc::new(TaskWaker { id, queued: AtomicBool::new(false), ready });
        let body = Some(body(Waker::from(waker.clone())));
        waker.clone().wake();
        let doing = String::from("is about to begin");
        let (paused, missed, place) = (false, false, None);
        let task = Task { name, waker, body, paused, missed, doing, place };
        self.tasks.tasks.borrow_mut().put(id, task);
        id
    }

    /// Ends a task.
    pub(crate) fn kill(&self, id: TaskId) {
        let task = self.tasks.tasks.borrow_mut().remove(&id);
        drop(task);
    }

    /// Ends all tasks.
    pub(super) fn kill_all(&self) {
        let tasks = self.tasks.tasks.take();
        drop(tasks);
    }

    /// True once a task has ended.
    pub fn is_done(&self, id: TaskId) -> bool {
        self.tasks.tasks.borrow().get(&id).is_none()
    }

    /// Sets the current activity of the current task.
    pub fn doing(&self, what: impl FnOnce() -> String) {
        if let Some(task) = self.tasks.tasks.borrow_mut().get_mut(&self.tasks.current.get()) {
            task.doing = what();
        }
    }

    /// Sets the site at which the current task's procedure runs.
    pub(super) fn enter_place(&self, site: SiteId, run: u64) {
        if let Some(task) = self.tasks.tasks.borrow_mut().get_mut(&self.tasks.current.get()) {
            task.place = Some((site, run));
        }
    }

    /// The site at which the current task's procedure runs; `None` if it has crashed.
    pub fn place(&self) -> Option<SiteId> {
        let tasks = self.tasks.tasks.borrow();
        let (site, run) = tasks.get(&self.tasks.current.get())?.place?;
        Some(site).filter(|_| self.runs(site, run))
    }

    /// The current activity of a task; `None` once it has ended.
    pub fn what_is_done_by(&self, id: TaskId) -> Option<String> {
        let tasks = self.tasks.tasks.borrow();
        tasks.get(&id).map(|task| format!("{} {}", task.name, task.doing))
    }

    /// The task that is polled.
    pub(super) fn current(&self) -> TaskId {
        self.tasks.current.get()
    }

    /// The activities of all tasks that do not belong to a site, and so should end.
    pub fn foreground(&self) -> Vec<String> {
        let background = self.site_tasks();
        let tasks = self.tasks.tasks.borrow();
        let foreground = tasks.iter().filter(|(id, _)| !background.contains(id));
        foreground.map(|(_, task)| format!("{} {}", task.name, task.doing)).collect()
    }

    /// Waits for `ns` nanoseconds of virtual time.
    pub async fn sleep(&self, ns: u64) {
        let until = Time(self.now().0 + ns);
        let mut noted = false;
        poll_fn(|cx| {
            if self.now() >= until {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut noted, true) {
                self.agenda.borrow_mut().add(until, Event::Wake(cx.waker().clone()));
            }
            Poll::Pending
        })
        .await;
    }

    /// Pauses the current task for `ns` nanoseconds of virtual time, at any place in its code.
    pub fn pause(&self, stack: Stack<'_>, ns: u64) {
        let until = Time(self.now().0 + ns);
        self.agenda.borrow_mut().add(until, Event::Resume(self.tasks.current.get()));
        self.park(stack);
    }

    /// Pauses the current task until [`World::resume`] is called for it.
    pub fn park(&self, stack: Stack<'_>) {
        let current = self.tasks.current.get();
        if let Some(task) = self.tasks.tasks.borrow_mut().get_mut(&current) {
            task.paused = true;
        }
        stack.0.suspend(());
    }

    /// Keeps a task from being polled until [`World::resume`] is called for it.
    pub(super) fn stand(&self, id: TaskId) {
        if let Some(task) = self.tasks.tasks.borrow_mut().get_mut(&id) {
            task.paused = true;
        }
    }

    /// Continues a paused task.
    pub fn resume(self: &Rc<World>, id: TaskId) {
        let missed = {
            let mut tasks = self.tasks.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(&id).filter(|task| task.paused) else { return };
            if self.holds_back(id, task.place) {
                return;
            }
            task.paused = false;
            std::mem::take(&mut task.missed)
        };
        self.poll(id);
        if missed && let Some(task) = self.tasks.tasks.borrow().get(&id) {
            task.waker.clone().wake();
        }
    }

    /// True if a task is paused.
    pub fn is_paused(&self, id: TaskId) -> bool {
        self.tasks.tasks.borrow().get(&id).is_some_and(|task| task.paused)
    }

    /// Takes a ready task from the queue.
    pub(super) fn next_ready(&self) -> Option<TaskId> {
        let mut ready = self.tasks.ready.0.lock();
        let shuffle = ready.len() > 1 && self.manners.borrow().shuffle;
        let at = if shuffle { self.draw(0..ready.len() as u64) as usize } else { 0 };
        ready.remove(at)
    }

    pub(super) fn poll(self: &Rc<World>, id: TaskId) {
        let body = {
            let mut tasks = self.tasks.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(&id) else { return };
            task.waker.queued.store(false, Ordering::Relaxed);
            if task.paused {
                task.missed = true;
                return;
            }
            task.body.take().map(|body| (body, Waker::from(task.waker.clone())))
        };
        let Some((mut body, waker)) = body else { return };
        self.tasks.current.set(id);
        let done = self.guarded(|| match &mut body {
            Body::Plain(future) => {
                future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
            }
            Body::OnStack(coroutine) => {
                matches!(coroutine.resume(()), CoroutineResult::Return(()))
            }
        });
        let mut tasks = self.tasks.tasks.borrow_mut();
        match tasks.get_mut(&id) {
            Some(task) if done == Some(false) => task.body = Some(body),
            // It has ended, or was killed while it ran.
            _ => drop(tasks.remove(&id)),
        }
    }

    /// Runs code of the system; a panic there ends the run, with its message.
    pub(super) fn guarded<T>(&self, code: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(code)) {
            Ok(done) => Some(done),
            Err(said) => {
                *self.panicked.borrow_mut() = Some(words(&*said));
                None
            }
        }
    }
}

fn words(said: &(dyn Any + Send)) -> String {
    let text = said.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| said.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}
