// SPDX-License-Identifier: GPL-2.0

//! A device over a driver, and the rules that must hold after every call.

use std::collections::VecDeque;
use std::rc::Rc;

use vring::{Chain, Endian, Error, Features, Split, UsedElem};
use vring_model::driver::{crosses, Buf, Config, Driver};
use vring_model::oracle::{View, Walk, EFAULT, EINVAL};
use vring_model::probe::{Event, Probe, Where};
use vring_model::ram::Ram;
use vring_model::ring::{Guest, Ring, Segs};

use crate::inputs;

/// Segments that a call may return: UIO_MAXIOV, as in the device.
pub const CAP: usize = 1024;

/// Device and driver of one ring.
pub struct Rig {
    /// What they agreed on.
    pub config: Config,
    /// Guest memory.
    pub ram: Rc<Ram>,
    /// Watches the device.
    pub probe: Rc<Probe>,
    /// The ring as the device reaches it.
    pub ring: Ring,
    /// Guest memory as the device reaches it.
    pub guest: Guest,
    /// The driver.
    pub driver: Driver,
    /// The device side under test.
    pub split: Split,
    notify_on_empty: bool,
    offered: Vec<u16>,
    published: Vec<u16>,
    seen: usize,
    pos: usize,
    held: Vec<(usize, u16)>,
    unread: VecDeque<(u32, u32)>,
    total_used: u64,
    signalled: Option<u64>,
    asleep: bool,
    /// Whether the driver sees a wish for kicks; unknown after a fault.
    kicks: Option<bool>,
}

/// The byte order of an agreement.
pub fn endian(config: &Config) -> Endian {
    match config.big {
        true => Endian::Big,
        false => Endian::Little,
    }
}

/// A device that has just been started on the ring of `config`.
pub fn started(config: &Config, features: Features, ring: &Ring, base: u16) -> Split {
    let mut split = Split::new();
    split
        .set_num(u32::from(config.num))
        .expect("a legal ring size");
    split.set_base(u32::from(base)).expect("a legal base");
    split.set_features(features);
    split
        .start(ring, endian(config))
        .expect("start without a fault");
    split
}

/// The oracle's form of what the device reported.
pub fn as_walk(chain: &Chain, segs: &Segs) -> Walk {
    Walk {
        segs: segs.list.clone(),
        out_segs: chain.out_segs,
        in_segs: chain.in_segs,
        out_len: chain.out_len,
        in_len: chain.in_len,
        descs: chain.descs,
    }
}

/// The device's view of the ring that the driver lays out.
pub fn ring(config: &Config, ram: &Rc<Ram>, probe: &Rc<Probe>) -> Ring {
    let Config {
        place,
        num,
        event_idx,
        ..
    } = *config;
    Ring::new(ram.clone(), probe.clone(), place, num, event_idx)
}

impl Rig {
    /// Starts device and driver. `plain` translates by the oracle instead of by `MemTable`.
    pub fn new(config: Config, notify_on_empty: bool, plain: bool) -> Self {
        let ram = Rc::new(Ram::new(&inputs::layout(config.num)));
        let probe = Rc::new(Probe::default());
        let driver = Driver::new(ram.clone(), config);
        let ring = ring(&config, &ram, &probe);
        let guest = match plain {
            true => Guest::plain(ram.clone(), probe.clone()),
            false => Guest::fast(ram.clone(), probe.clone()),
        };
        let features = Features {
            event_idx: config.event_idx,
            notify_on_empty,
        };
        let split = started(&config, features, &ring, config.avail_base);
        Self {
            config,
            ram,
            probe,
            ring,
            guest,
            driver,
            split,
            notify_on_empty,
            offered: Vec::new(),
            published: Vec::new(),
            seen: 0,
            pos: 0,
            held: Vec::new(),
            unread: VecDeque::new(),
            total_used: 0,
            signalled: None,
            asleep: false,
            kicks: Some(true),
        }
    }

    fn begin(&self, fail_at: Option<u32>) {
        self.probe.begin();
        if let Some(step) = fail_at {
            self.probe.fail_at(step);
        }
    }

    /// Ends a call: what the device knows by now, and where it has to stand.
    fn end(&mut self) -> Vec<Event> {
        let trace = self.probe.trace();
        if trace.contains(&Event::Load(Where::Avail, 2)) {
            self.seen = self.published.len();
        }
        let base = self.config.avail_base.wrapping_add(self.pos as u16);
        assert_eq!(self.split.base(), base, "position after the call");
        trace
    }

    /// Driver: lays out a chain; returns whether there was room.
    pub fn offer(&mut self, bufs: &[Buf], direct: usize) -> bool {
        let head = self.driver.offer(bufs, direct);
        self.offered.extend(head);
        head.is_some()
    }

    /// Driver: publishes what it laid out, and kicks if it has to.
    pub fn publish(&mut self) {
        self.published.append(&mut self.offered);
        self.driver.publish();
        if self.driver.should_kick() {
            self.asleep = false;
        }
        let lost = self.asleep && self.published.len() > self.pos;
        assert!(
            !lost,
            "lost kick: the device sleeps and the driver sees no need to kick"
        );
    }

    /// Device: takes the next chain.
    pub fn pop(&mut self, fail_at: Option<u32>) {
        self.begin(fail_at);
        let mut segs = Segs::new(CAP);
        let got = self.split.pop(&self.ring, &mut self.guest, &mut segs);
        if self.probe.fired() {
            let errno = got.expect_err("a fault must not be lost").errno();
            assert!(
                errno == EFAULT || errno == EINVAL,
                "errno {errno} for a fault"
            );
            self.end();
            return;
        }
        let chain = got.expect("a legal chain was refused");
        let Some(head) = self.published.get(self.pos).copied() else {
            assert!(chain.is_none(), "a chain out of an empty ring");
            self.end();
            return;
        };
        let chain = chain.expect("a published chain was not found");
        assert_eq!(chain.head, head, "head");
        assert_eq!(
            Ok(as_walk(&chain, &segs)),
            self.view().walk(head),
            "segments of the chain"
        );
        self.held.push((self.pos, head));
        self.pos += 1;
        self.asleep = false;
        let trace = self.end();
        check_fetches(&trace);
    }

    /// The oracle's look at the ring.
    pub fn view(&self) -> View<'_> {
        let Config {
            place, num, big, ..
        } = self.config;
        View {
            ram: &self.ram,
            place,
            num,
            big,
            cap: CAP,
        }
    }

    /// Device: gives back the newest chains, as far as it still holds them.
    pub fn undo(&mut self, wanted: usize) {
        let mut held = self.held.clone();
        held.sort_unstable();
        let run = held
            .iter()
            .rev()
            .zip((0..self.pos).rev())
            .take_while(|(h, pos)| h.0 == *pos);
        let count = run.take(wanted).count();
        self.begin(None);
        self.split.undo(count as u16);
        self.pos -= count;
        let pos = self.pos;
        self.held.retain(|(at, _)| *at < pos);
        self.asleep = false;
        assert!(self.end().is_empty(), "undo has nothing to touch");
    }

    /// Device: returns chains in an order of the test's choice.
    pub fn add_used(&mut self, picks: &[(usize, u32)], fail_at: Option<u32>) {
        let mut heads = Vec::new();
        for (pick, len) in picks.iter().take(self.held.len()) {
            let at = pick % self.held.len();
            heads.push((self.held.swap_remove(at), *len));
        }
        let order = endian(&self.config);
        let elems: Vec<UsedElem> = heads
            .iter()
            .map(|((_, h), len)| UsedElem::new(u32::from(*h), *len, order))
            .collect();
        let before = self.driver.device_used_idx();
        self.begin(fail_at);
        let got = self.split.add_used(&self.ring, &elems);
        if self.probe.fired() {
            assert_eq!(
                got.map_err(|e| e.errno()),
                Err(EFAULT),
                "a fault must not be lost"
            );
            assert_eq!(
                self.driver.device_used_idx(),
                before,
                "used.idx after a fault"
            );
            self.end();
            // The same call once more must leave neither gap nor double.
            self.begin(None);
            self.split
                .add_used(&self.ring, &elems)
                .expect("add_used without a fault");
        } else {
            got.expect("add_used without a fault");
        }
        let trace = self.end();
        check_publish(&trace, elems.len());
        self.total_used += elems.len() as u64;
        self.unread
            .extend(heads.iter().map(|((_, h), len)| (u32::from(*h), *len)));
        let idx = self.config.used_base.wrapping_add(self.total_used as u16);
        assert_eq!(self.driver.device_used_idx(), idx, "used.idx");
    }

    /// Driver: reads all used entries.
    pub fn read_used(&mut self) {
        while let Some(entry) = self.driver.take_used() {
            assert_eq!(Some(entry), self.unread.pop_front(), "used entry");
        }
        assert!(self.unread.is_empty(), "used entries are missing");
    }

    /// Device: asks whether the driver wants an interrupt.
    pub fn signal(&mut self, wish: u16, fail_at: Option<u32>) {
        let event = self
            .driver
            .used_idx()
            .wrapping_add(wish % 5)
            .wrapping_sub(1);
        match self.config.event_idx {
            true => self.driver.set_used_event(event),
            false => self.driver.set_no_interrupt(wish % 2 == 1),
        }
        let empty = self.notify_on_empty && self.seen == self.pos;
        self.begin(fail_at);
        let got = self.split.needs_signal(&self.ring);
        let trace = self.end();
        assert_eq!(
            trace.first(),
            Some(&Event::Mb),
            "used.idx must be out before the driver's wish"
        );
        // The device signals on an error, so a fault may not end in silence.
        let want = empty || self.wants_signal(wish, event);
        match self.probe.fired() {
            true => assert!(got.is_err(), "a fault must not be lost"),
            false => assert_eq!(got, Ok(want), "interrupt"),
        }
        if !empty {
            self.signalled = Some(self.total_used);
        }
    }

    /// With event index the driver does not look at the flags.
    fn check_flags(&self, want: u16) {
        if !self.config.event_idx {
            assert_eq!(self.driver.device_flags(), want, "used.flags");
        }
    }

    fn wants_signal(&self, wish: u16, event: u16) -> bool {
        if !self.config.event_idx {
            return wish % 2 == 0;
        }
        // The first time, and after a whole turn of the index, the device cannot know.
        let Some(old) = self
            .signalled
            .filter(|old| self.total_used - old < 0x1_0000)
        else {
            return true;
        };
        let at = |count: u64| self.config.used_base.wrapping_add(count as u16);
        crosses(at(old), at(self.total_used), event)
    }

    /// Device: asks for kicks and looks once more.
    pub fn enable_notify(&mut self, fail_at: Option<u32>) {
        let new = self.published.len() > self.seen;
        self.begin(fail_at);
        let got = self.split.enable_notify(&self.ring);
        let trace = self.end();
        if self.probe.fired() {
            assert!(got.is_err(), "a fault must not be lost");
            // The device is not told whether the driver sees its wish: it starts again.
            self.begin(None);
            self.split
                .disable_notify(&self.ring)
                .expect("disable_notify without a fault");
            self.end();
            self.asleep = false;
            self.kicks = None;
            return;
        }
        let more = got.expect("enable_notify without a fault");
        assert!(!more || self.published.len() > self.pos, "nothing appeared");
        if !trace.is_empty() {
            self.kicks = Some(true);
            self.check_flags(0);
            check_recheck(&trace);
            assert!(more || !new, "what appeared meanwhile was not seen");
            self.asleep = !more && self.published.len() == self.pos;
        }
    }

    /// Device: wants no kicks.
    pub fn disable_notify(&mut self, fail_at: Option<u32>) {
        self.begin(fail_at);
        let got = self.split.disable_notify(&self.ring);
        assert_eq!(got.is_err(), self.probe.fired(), "a fault must not be lost");
        self.asleep = false;
        let trace = self.end();
        if got.is_err() {
            self.kicks = None;
        } else if self.kicks == Some(true) || !trace.is_empty() {
            self.kicks = Some(false);
            self.check_flags(1);
        }
    }

    /// Device: asks whether the ring is surely empty.
    pub fn avail_empty(&mut self, fail_at: Option<u32>) {
        self.begin(fail_at);
        let empty = self.split.avail_empty(&self.ring);
        self.end();
        match self.probe.fired() {
            true => assert!(!empty, "an error is not empty"),
            false => assert_eq!(empty, self.pos == self.published.len(), "empty"),
        }
    }

    /// Device: stops, and starts where it stood; as a new device if `fresh`.
    pub fn restart(&mut self, fresh: bool, fail_at: Option<u32>) {
        let base = self.split.base();
        let features = self.split.features();
        assert_eq!(
            features.event_idx, self.config.event_idx,
            "features are kept"
        );
        self.begin(fail_at);
        if fresh {
            self.split = started_or_fault(&self.config, features, &self.ring, base);
            self.kicks = Some(true);
            self.check_flags(0);
        } else {
            self.split.set_base(u32::from(base)).expect("a legal base");
            let got = self.split.start(&self.ring, endian(&self.config));
            assert_eq!(got.is_err(), self.probe.fired(), "a fault must not be lost");
            if got.is_err() {
                self.begin(None);
                self.split
                    .start(&self.ring, endian(&self.config))
                    .expect("start without a fault");
            }
        }
        self.seen = self.pos;
        self.signalled = None;
        self.asleep = false;
        self.end();
        self.seen = self.pos;
    }

    /// Plays everything that is left to its end.
    pub fn drain(&mut self) {
        self.publish();
        while self.pos < self.published.len() {
            self.pop(None);
        }
        self.pop(None);
        let all: Vec<(usize, u32)> = self.held.iter().map(|_| (0, 7)).collect();
        for batch in all.chunks(usize::from(self.config.num)) {
            self.add_used(batch, None);
        }
        self.read_used();
        assert_eq!(
            self.driver.free(),
            usize::from(self.config.num),
            "every descriptor came back"
        );
    }
}

fn started_or_fault(config: &Config, features: Features, ring: &Ring, base: u16) -> Split {
    let mut split = Split::new();
    split
        .set_num(u32::from(config.num))
        .expect("a legal ring size");
    split.set_base(u32::from(base)).expect("a legal base");
    split.set_features(features);
    let old = split.endian();
    if let Err(error) = split.start(ring, endian(config)) {
        assert!(matches!(error, Error::Fault), "{error} for a fault");
        assert_eq!(split.endian(), old, "byte order after a failed start");
        split
            .start(ring, endian(config))
            .expect("start without a fault");
    }
    split
}

fn position(trace: &[Event], find: impl Fn(&Event) -> bool) -> Option<usize> {
    trace.iter().position(find)
}

/// One fetch for each byte, and none of the ring before the barrier behind `avail.idx`.
fn check_fetches(trace: &[Event]) {
    let desc = |event: &Event| match *event {
        Event::Read(Where::Desc, off, len) => Some((off, off + len)),
        _ => None,
    };
    let mut reads: Vec<_> = trace.iter().filter_map(desc).collect();
    reads.sort_unstable();
    let twice = reads.windows(2).any(|pair| pair[1].0 < pair[0].1);
    assert!(!twice, "a descriptor fetched twice: {reads:?}");
    let head = |event: &&Event| matches!(event, Event::Load(Where::Avail, off) if *off >= 4);
    let heads = trace.iter().filter(head).count();
    assert!(heads <= 1, "the head was fetched {heads} times");
    if let Some(idx) = position(trace, |e| *e == Event::Load(Where::Avail, 2)) {
        let next = position(&trace[idx + 1..], |e| {
            !matches!(e, Event::Load(Where::Avail, 2))
        });
        let next = next.map(|at| trace[idx + 1 + at]);
        assert_eq!(next, Some(Event::Rmb), "no read barrier behind avail.idx");
    }
}

/// Entries in few copies, one more at a wrap, then the barrier, then the index.
fn check_publish(trace: &[Event], elems: usize) {
    let writes: Vec<usize> = (0..trace.len()).filter(|i| is_write(&trace[*i])).collect();
    let bytes: usize = trace
        .iter()
        .map(|e| {
            if let Event::Write(_, len) = e {
                *len
            } else {
                0
            }
        })
        .sum();
    assert_eq!(bytes, 8 * elems, "bytes of used entries");
    assert!(
        writes.len() <= 1 + elems.div_ceil(64),
        "{} copies for {elems} entries",
        writes.len()
    );
    let Some(last) = writes.last() else { return };
    let store = position(trace, |e| *e == Event::Store(2)).expect("used.idx is not stored");
    let wmb = position(&trace[*last..], |e| *e == Event::Wmb).map(|at| at + last);
    assert!(
        wmb.is_some_and(|at| at < store),
        "no write barrier before used.idx"
    );
}

fn is_write(event: &Event) -> bool {
    matches!(event, Event::Write(..))
}

/// The wish for kicks, then the full barrier, then one more look at `avail.idx`.
fn check_recheck(trace: &[Event]) {
    let store = position(trace, |e| matches!(e, Event::Store(_))).expect("no wish was stored");
    let load = position(trace, |e| *e == Event::Load(Where::Avail, 2)).expect("no second look");
    let mb = trace[store..]
        .iter()
        .position(|e| *e == Event::Mb)
        .map(|at| at + store);
    assert!(
        mb.is_some_and(|at| at < load),
        "no full barrier between wish and second look"
    );
}
