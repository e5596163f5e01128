//! Work that runs inside the task that waits for it, and only while that task polls it.
//!
//! Work made of halves that wake each other is polled on until it really waits: a wake it gives itself never goes round
//! by the scheduler, which would poll everything around it once more.

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// Rounds in one poll: work that never stops waking itself must let others run.
const MOST_ROUNDS: usize = 16;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The work, and who is told when it can go on.
pub(crate) struct InlineTask {
    /// `None` when it is over. The lock is never taken: it lets others look at what holds the work.
    work: Mutex<Option<Work>>,
    knock: Arc<Knock>,
    waker: Waker,
}

#[derive(Default)]
struct Knock {
    knocked: AtomicBool,
    outside: AtomicWaker,
}

impl Wake for Knock {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.knocked.store(true, Ordering::Release);
        self.outside.wake();
    }
}

impl InlineTask {
    pub fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        let knock = Arc::<Knock>::default();
        let waker = Waker::from(Arc::clone(&knock));
        Self { work: Mutex::new(Some(Box::pin(work))), knock, waker }
    }

    /// Goes on with the work until it waits for something outside; true when it is over.
    pub fn run(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(work) = self.work.get_mut() else { return true };
        // What it wakes while it is polled is itself.
        self.knock.outside.take();
        for _ in 0..MOST_ROUNDS {
            self.knock.knocked.store(false, Ordering::Release);
            if work.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready() {
                *self.work.get_mut() = None;
                return true;
            }
            if !self.knock.knocked.load(Ordering::Acquire) {
                self.knock.outside.register(cx.waker());
                // Woken in between, by another thread.
                if !self.knock.knocked.load(Ordering::Acquire) {
                    return false;
                }
                self.knock.outside.take();
            }
        }
        cx.waker().wake_by_ref();
        false
    }

    /// What is left of the work, for somebody else to run.
    pub fn take(&mut self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.work.get_mut().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::task::Poll;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    /// Counts the wakes that reach the task around.
    #[derive(Default)]
    struct Around(AtomicUsize);

    impl Wake for Around {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn around() -> (Arc<Around>, Waker) {
        let around = Arc::<Around>::default();
        (Arc::clone(&around), Waker::from(around))
    }

    #[test]
    fn work_that_wakes_itself_goes_on_at_once_and_nobody_else_is_woken() {
        let (around, waker) = around();
        let (say, heard) = oneshot::channel::<()>();
        let mut task = InlineTask::new(async move {
            for _ in 0..5 {
                wakes_itself().await;
            }
            let _ = heard.await;
        });
        let mut cx = Context::from_waker(&waker);
        assert!(!task.run(&mut cx));
        assert_eq!(around.0.load(Ordering::Relaxed), 0);
        say.send(()).unwrap();
        assert_eq!(around.0.load(Ordering::Relaxed), 1);
        assert!(task.run(&mut cx) && task.run(&mut cx) && task.take().is_none());
    }

    #[test]
    fn work_that_never_rests_lets_others_run() {
        let (around, waker) = around();
        let mut task = InlineTask::new(async {
            loop {
                wakes_itself().await;
            }
        });
        assert!(!task.run(&mut Context::from_waker(&waker)));
        assert_eq!(around.0.load(Ordering::Relaxed), 1);
        assert!(task.take().is_some());
    }

    #[tokio::test]
    async fn what_is_left_can_be_run_by_another() {
        let (say, heard) = oneshot::channel();
        let mut task = InlineTask::new(async move {
            yield_now().await;
            say.send(7).unwrap();
        });
        tokio::spawn(task.take().unwrap());
        assert_eq!(heard.await, Ok(7));
    }

    async fn wakes_itself() {
        let mut done = false;
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if std::mem::replace(&mut done, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
