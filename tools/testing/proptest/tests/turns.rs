// SPDX-License-Identifier: GPL-2.0

//! Whole turns of the 16-bit indices.

use vring_model::driver::Buf;
use vring_proptest::inputs::agreement;
use vring_proptest::rig::Rig;

const BUFS: [Buf; 2] = [
    Buf {
        addr: 0x10,
        len: 12,
        write: false,
    },
    Buf {
        addr: 0x3ff0,
        len: 0x20,
        write: true,
    },
];

/// Passes `batch` chains from the driver to the device and back.
fn pass(rig: &mut Rig, batch: usize, round: usize) {
    // A table takes one descriptor of the ring, each other layout of the chain two.
    let room = usize::from(rig.config.num) >= 2 * batch;
    let direct = if room { round % 3 } else { 0 };
    (0..batch).for_each(|_| assert!(rig.offer(&BUFS, direct), "no room"));
    rig.publish();
    (0..batch).for_each(|_| rig.pop(None));
    rig.pop(None);
    rig.enable_notify(None);
    rig.disable_notify(None);
    let picks: Vec<(usize, u32)> = (0..batch).map(|i| (i * 7, round as u32)).collect();
    rig.add_used(&picks, None);
    rig.read_used();
}

/// Passes 70,000 chains, and asks for a signal after every third batch.
fn turn(rig: &mut Rig, batch: usize) {
    for round in 0..70_000 / batch {
        pass(rig, batch, round);
        if round % 3 == 0 {
            rig.signal(round as u16, None);
        }
    }
    rig.drain();
}

#[test]
fn a_turn_in_event_mode() {
    for (num, batch) in [(1, 1), (64, 5), (64, 21)] {
        let config = agreement(num, false, true, 0, 0);
        turn(&mut Rig::new(config, false, false), batch);
    }
}

#[test]
fn a_turn_in_flag_mode() {
    let config = agreement(64, true, false, 9, 0xfff0);
    turn(&mut Rig::new(config, true, false), 21);
}

#[test]
fn a_signal_after_a_whole_turn_without_one() {
    // The distance from the last signal no longer fits in 16 bits, and looks like 0, 1 or 8.
    for entries in [0xffff, 0x1_0000, 0x1_0001, 0x1_0008] {
        let config = agreement(32, false, true, 0xfffe, 0xfffd);
        let mut rig = Rig::new(config, false, false);
        pass(&mut rig, 1, 1);
        rig.signal(1, None);
        (0..entries / 32).for_each(|round| pass(&mut rig, 32, round));
        (0..entries % 32).for_each(|round| pass(&mut rig, 1, round));
        rig.signal(1, None);
        pass(&mut rig, 1, 1);
        rig.signal(1, None);
    }
}

#[test]
fn a_head_fetched_a_whole_turn_ago_is_not_taken() {
    // Two chains at once are fetched together, single ones are not.
    let config = agreement(16, false, false, 0xfff0, 0xfff0);
    let mut rig = Rig::new(config, false, false);
    pass(&mut rig, 2, 1);
    (0..0x1_0004).for_each(|round| pass(&mut rig, 1, round % 2));
    rig.drain();
}

#[test]
fn the_largest_ring_is_filled_and_returned_at_once() {
    for base in [0, 0xc001] {
        let config = agreement(0x8000, false, true, base, base);
        let mut rig = Rig::new(config, false, false);
        for _ in 0..3 {
            (0..0x8000).for_each(|_| assert!(rig.offer(&BUFS[..1], 1), "no room"));
            rig.publish();
            (0..0x8000).for_each(|_| rig.pop(None));
            rig.add_used(&vec![(0, 5); 0x8000], None);
            rig.signal(3, None);
            rig.read_used();
        }
        rig.drain();
    }
}
