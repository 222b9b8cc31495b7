// SPDX-License-Identifier: GPL-2.0

use std::vec;
use std::vec::Vec;

use super::*;
use crate::endian::{V16, V32, V64};
use crate::testing::{desc_bytes, Ram, Segs, GUEST, RAM, USER};

const LE: Endian = Endian::Little;

fn desc(addr: u64, len: u32, flags: u16, next: u16) -> Desc {
    Desc::from_bytes(&desc_bytes(LE, addr, len, flags, next))
}

/// Walks the chain at the first of `descs`, in a ring of that many.
fn walk(ram: &mut impl GuestMem, descs: &[Desc]) -> (Result<Chain, Error>, Vec<(u64, usize)>) {
    let mut segs = Segs::new();
    let num = descs.len() as u16;
    let got = Walk::new(ram, &mut segs, LE).run(0, num, |i| Ok(descs[usize::from(i)]));
    (got, segs.list)
}

fn refusal(ram: &mut impl GuestMem, descs: &[Desc]) -> Error {
    walk(ram, descs).0.unwrap_err()
}

/// Writes an indirect table to the beginning of guest memory; returns its descriptor.
fn table(ram: &mut Ram, descs: &[Desc]) -> Desc {
    for (dst, desc) in ram.bytes.chunks_mut(DESC_SIZE).zip(descs) {
        dst.copy_from_slice(&desc.to_bytes());
    }
    desc(GUEST, (descs.len() * DESC_SIZE) as u32, INDIRECT, 0)
}

/// Returns `count` descriptors of one readable byte each; all but the last have a next one.
fn bytewise(count: usize) -> Vec<Desc> {
    let mut descs = vec![desc(GUEST, 1, NEXT, 0); count];
    descs[count - 1] = desc(GUEST, 1, 0, 0);
    descs
}

#[test]
fn readable_then_writable() {
    let descs = [
        desc(GUEST, 12, NEXT, 2),
        desc(GUEST + 0x300, 100, WRITE, 0),
        desc(GUEST + 0x100, 60, NEXT, 3),
        desc(GUEST + 0x200, 40, NEXT | WRITE, 1),
    ];
    let (got, segs) = walk(&mut Ram::new(), &descs);
    let want = Chain {
        head: 0,
        out_segs: 2,
        in_segs: 2,
        out_len: 72,
        in_len: 140,
        descs: 4,
        walked: 4,
    };
    assert_eq!(got, Ok(want));
    assert_eq!(
        segs,
        [
            (USER, 12),
            (USER + 0x100, 60),
            (USER + 0x200, 40),
            (USER + 0x300, 100)
        ]
    );
}

#[test]
fn what_was_walked_is_counted_though_it_is_empty() {
    let mut ram = Ram::new();
    let mut empty = vec![desc(GUEST, 0, NEXT | WRITE, 0); 20];
    empty.push(desc(GUEST, 1, WRITE, 0));
    let descs = [desc(GUEST, 0, NEXT, 1), table(&mut ram, &empty)];
    let chain = walk(&mut ram, &descs).0.unwrap();
    assert_eq!((chain.descs, chain.in_segs), (2, 1));
    assert_eq!((chain.walked, chain.walked_bytes()), (23, 23 * 16));
}

#[test]
fn big_endian() {
    let mut segs = Segs::new();
    let fields = (V64::new(GUEST, Endian::Big), V32::new(7, Endian::Big));
    let flags = V16::new(WRITE, Endian::Big);
    let only = Desc::new(fields.0, fields.1, flags, V16::default());
    let got = Walk::new(&mut Ram::new(), &mut segs, Endian::Big).run(0, 1, |_| Ok(only));
    assert_eq!(got.map(|chain| (chain.in_segs, chain.in_len)), Ok((1, 7)));
}

#[test]
fn segments_are_counted_not_descriptors() {
    let mut ram = Ram::cut(&[0x10, 0x10, 0x10]);
    let descs = [desc(GUEST + 8, 0x20, NEXT, 1), desc(GUEST, 0, WRITE, 0)];
    let got = walk(&mut ram, &descs).0.unwrap();
    assert_eq!((got.out_segs, got.in_segs, got.descs), (3, 0, 2));
}

#[test]
fn next_must_be_in_the_ring() {
    let descs = [desc(GUEST, 1, NEXT, 1)];
    assert_eq!(
        refusal(&mut Ram::new(), &descs),
        Error::Next { next: 1, num: 1 }
    );
    // Without the flag it means nothing.
    assert!(walk(&mut Ram::new(), &[desc(GUEST, 1, 0, 1)]).0.is_ok());
}

#[test]
fn circles_end_at_the_ring_size() {
    let descs = [desc(GUEST, 1, NEXT, 1), desc(GUEST, 1, NEXT, 1)];
    let (got, segs) = walk(&mut Ram::new(), &descs);
    assert_eq!((got, segs.len()), (Err(Error::Loop { head: 0 }), 2));
}

#[test]
fn a_chain_may_take_the_whole_ring() {
    let mut descs: Vec<_> = (1..=256).map(|next| desc(GUEST, 1, NEXT, next)).collect();
    descs[255] = desc(GUEST, 1, 0, 0);
    assert_eq!(
        walk(&mut Ram::new(), &descs).0.map(|chain| chain.descs),
        Ok(256)
    );
}

#[test]
fn readable_behind_writable_is_refused() {
    let descs = [desc(GUEST, 1, WRITE | NEXT, 1), desc(GUEST, 1, 0, 0)];
    assert_eq!(
        refusal(&mut Ram::new(), &descs),
        Error::OutAfterIn { head: 0 }
    );
    // As in the C twin, an empty writable buffer does not count.
    let descs = [desc(GUEST, 0, WRITE | NEXT, 1), desc(GUEST, 1, 0, 0)];
    assert!(walk(&mut Ram::new(), &descs).0.is_ok());
}

#[test]
fn each_descriptor_is_fetched_once() {
    let descs = [desc(GUEST, 1, NEXT, 1), desc(GUEST, 1, 0, 0)];
    let mut fetched = vec![];
    let got = Walk::new(&mut Ram::new(), &mut Segs::new(), LE).run(0, 2, |i| {
        fetched.push(i);
        Ok(descs[usize::from(i)])
    });
    assert!(got.is_ok());
    assert_eq!(fetched, [0, 1]);
}

#[test]
fn errors_of_the_callers_traits_come_through() {
    let got = Walk::new(&mut Ram::new(), &mut Segs::new(), LE).run(0, 1, |_| Err(Fault));
    assert_eq!(got, Err(Error::Fault));

    let addr = GuestAddr::new(GUEST - 1);
    let hole = [desc(addr.get(), 1, 0, 0)];
    assert_eq!(refusal(&mut Ram::new(), &hole), Error::Unmapped { addr });

    let mut ram = Ram::new();
    ram.denied = GUEST + 4;
    let addr = GuestAddr::new(GUEST + 4);
    assert_eq!(
        refusal(&mut ram, &[desc(GUEST + 4, 1, WRITE, 0)]),
        Error::Perm { addr }
    );

    let mut segs = Segs::new();
    segs.max = 0;
    let one = desc(GUEST, 1, 0, 0);
    let got = Walk::new(&mut Ram::new(), &mut segs, LE).run(0, 1, |_| Ok(one));
    assert_eq!(got, Err(Error::Segments));
}

#[test]
fn indirect_table_counts_as_one_descriptor() {
    let mut ram = Ram::new();
    // The order is that of the memory, whatever `next` says.
    let rows = [
        desc(GUEST + 0x100, 12, NEXT, 0),
        desc(GUEST + 0x200, 60, WRITE, 0),
    ];
    let table = table(&mut ram, &rows);
    let (got, segs) = walk(&mut ram, &[desc(GUEST + 0x300, 4, NEXT, 1), table]);
    let got = got.unwrap();
    assert_eq!((got.out_segs, got.in_segs, got.descs), (2, 1, 2));
    assert_eq!((got.out_len, got.in_len), (16, 60));
    assert_eq!(
        segs,
        [(USER + 0x300, 4), (USER + 0x100, 12), (USER + 0x200, 60)]
    );
}

#[test]
fn indirect_table_is_fetched_in_runs() {
    let mut ram = Ram::new();
    let table = table(&mut ram, &bytewise(40));
    assert_eq!(
        walk(&mut ram, &[table]).0.map(|chain| chain.out_segs),
        Ok(40)
    );
    assert_eq!(ram.reads, [16 * DESC_SIZE, 16 * DESC_SIZE, 8 * DESC_SIZE]);
}

#[test]
fn indirect_table_may_be_in_many_segments() {
    // Borders in the middle of a descriptor, and more than one in it.
    let mut ram = Ram::cut(&[5, 1, 3, 100, 8, 0x1000]);
    let table = table(&mut ram, &bytewise(40));
    assert_eq!(
        walk(&mut ram, &[table]).0.map(|chain| chain.out_segs),
        Ok(40)
    );
    assert_eq!(ram.reads[..5], [5, 1, 3, 100, 8]);
    assert_eq!(ram.reads.iter().sum::<usize>(), 40 * DESC_SIZE);
}

#[test]
fn indirect_table_in_too_many_segments_is_refused() {
    let mut ram = Ram::cut(&[1; 1024]);
    let fits = table(&mut ram, &bytewise(64));
    assert!(walk(&mut ram, &[fits]).0.is_ok());

    let mut ram = Ram::cut(&[1; 1040]);
    let table = table(&mut ram, &bytewise(65));
    assert_eq!(refusal(&mut ram, &[table]), Error::Segments);
}

#[test]
fn indirect_length_must_be_sound() {
    for len in [0, 1, 15, 17, u32::MAX] {
        let table = desc(GUEST, len, INDIRECT, 0);
        assert_eq!(
            refusal(&mut Ram::new(), &[table]),
            Error::IndirectLen { len }
        );
    }
}

#[test]
fn indirect_table_has_as_many_descriptors_as_next_can_number() {
    let len = MAX_INDIRECT * DESC_SIZE as u32;
    let mut ram = Ram::cut(&[len as usize + DESC_SIZE]);
    let rows = vec![desc(GUEST, 0, NEXT, 0); MAX_INDIRECT as usize];
    let full = table(&mut ram, &rows);
    assert_eq!(refusal(&mut ram, &[full]), Error::IndirectLoop { len });

    let len = len + DESC_SIZE as u32;
    let table = desc(GUEST, len, INDIRECT, 0);
    assert_eq!(refusal(&mut ram, &[table]), Error::IndirectTooBig { len });
}

#[test]
fn indirect_table_must_be_mapped_before_any_of_it_is_used() {
    let mut ram = Ram::new();
    let table = desc(GUEST + RAM as u64 - 16, 32, INDIRECT, 0);
    let addr = GuestAddr::new(GUEST + RAM as u64);
    assert_eq!(
        walk(&mut ram, &[table]),
        (Err(Error::Unmapped { addr }), vec![])
    );
    assert!(ram.reads.is_empty());
}

#[test]
fn indirect_table_must_have_an_end() {
    let mut ram = Ram::new();
    let table = table(&mut ram, &[desc(GUEST, 1, NEXT, 0); 20]);
    assert_eq!(
        refusal(&mut ram, &[table]),
        Error::IndirectLoop { len: 320 }
    );
}

#[test]
fn indirect_table_ends_the_chain() {
    let mut ram = Ram::new();
    table(&mut ram, &bytewise(1));
    let both = [desc(GUEST, 16, INDIRECT | NEXT, 1), desc(GUEST, 1, 0, 0)];
    assert_eq!(
        walk(&mut ram, &both),
        (Err(Error::IndirectNext { head: 0 }), vec![])
    );
}

#[test]
fn indirect_tables_do_not_nest() {
    let mut ram = Ram::new();
    let inner = desc(GUEST, 16, INDIRECT, 0);
    let table = table(&mut ram, &[desc(GUEST, 1, NEXT, 0), inner]);
    assert_eq!(refusal(&mut ram, &[table]), Error::IndirectNested);
}

#[test]
fn indirect_table_must_be_readable() {
    let mut ram = Ram::new();
    let table = table(&mut ram, &bytewise(1));
    ram.broken = true;
    assert_eq!(refusal(&mut ram, &[table]), Error::IndirectFault);
}

#[test]
fn order_is_kept_across_an_indirect_table() {
    let mut ram = Ram::new();
    let table = table(&mut ram, &bytewise(1));
    let descs = [desc(GUEST, 1, WRITE | NEXT, 1), table];
    assert_eq!(refusal(&mut ram, &descs), Error::OutAfterIn { head: 0 });
}

/// Guest memory that changes as soon as the device has looked at it.
struct Restless(Ram);

impl GuestMem for Restless {
    fn translate(
        &mut self,
        addr: GuestAddr,
        len: u32,
        access: Access,
        sink: &mut impl SegSink,
    ) -> Result<u32, Error> {
        self.0.translate(addr, len, access, sink)
    }

    fn read(&mut self, addr: UserAddr, dst: &mut [u8]) -> Result<(), Fault> {
        self.0.read(addr, dst)?;
        self.0.bytes.fill(0xff);
        Ok(())
    }
}

#[test]
fn what_was_fetched_is_what_is_used() {
    let mut ram = Ram::new();
    let table = table(&mut ram, &bytewise(16));
    let got = walk(&mut Restless(ram), &[table]).0;
    assert_eq!(got.map(|chain| chain.out_len), Ok(16));
}

/// A translation that succeeds without a byte of memory.
struct Void;

impl GuestMem for Void {
    fn translate(
        &mut self,
        addr: GuestAddr,
        _len: u32,
        _access: Access,
        sink: &mut impl SegSink,
    ) -> Result<u32, Error> {
        sink.push(UserAddr::new(addr.get()), 0)?;
        Ok(1)
    }

    fn read(&mut self, _addr: UserAddr, _dst: &mut [u8]) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn a_table_without_memory_does_not_hang_the_walk() {
    let addr = GuestAddr::new(GUEST);
    let table = desc(GUEST, 16, INDIRECT, 0);
    assert_eq!(refusal(&mut Void, &[table]), Error::Unmapped { addr });
}
