//! Properties of every design, tested on many random ones.

mod seeded;

use isomer_design::{
    Access, Change, Design, Footprint, Key, KeyRange, Route, RoutingTable, Span, TableId,
};
use seeded::Seeded;

#[test]
fn a_diff_applied_gives_the_other_design() {
    for seed in 0..400 {
        let mut random = Seeded(seed);
        let keys = [3, 12, 60][seed as usize % 3];
        let (from, to) = (random.design(keys), random.design(keys));
        let mut design = from.clone();
        for change in from.diff(&to).unwrap() {
            let applied = design.apply(&change);
            assert_eq!(applied, Ok(()), "seed {seed}: {change}");
        }
        assert_eq!(design, to, "seed {seed}");
        assert_eq!(to.diff(&to), Ok(vec![]), "seed {seed}");
    }
}

#[test]
fn a_change_keeps_the_invariants_or_leaves_the_design_alone() {
    for seed in 0..100 {
        let mut random = Seeded(seed);
        let mut design = random.design(20);
        let mut made = 0;
        for _ in 0..200 {
            let change = random.change(&design, 20);
            let before = design.clone();
            let valid = design.validate(&change);
            assert_eq!(design.apply(&change), valid);
            assert_eq!(design.check(), Ok(()), "seed {seed}: {change}");
            assert_eq!(valid.is_err(), design == before, "seed {seed}: {change}");
            made += usize::from(valid.is_ok());
        }
        assert!(made > 20, "seed {seed}: most changes should not be refused, {made} were made");
    }
}

#[test]
fn a_routing_table_kept_up_is_that_of_the_design() {
    for seed in 0..60 {
        let mut random = Seeded(seed);
        let mut design = random.design(20);
        let mut routing = RoutingTable::of(&design);
        for _ in 0..150 {
            let change = random.change(&design, 20);
            if design.apply(&change).is_ok() {
                routing = routing.after(&design, &change);
                assert_eq!(routing, RoutingTable::of(&design), "seed {seed}: {change}");
            }
            check_routing(&mut random, &design, &routing);
        }
        assert!(routing.entries() <= design.partition_count());
    }
}

/// Compares the home of a random footprint with the placements of its partitions.
fn check_routing(random: &mut Seeded, design: &Design, routing: &RoutingTable) {
    let mut footprint = Footprint::new();
    for _ in 0..random.below(4) {
        let (start, end) = (random.key(20), random.key(20));
        let access = if random.below(2) == 0 { Access::Read } else { Access::Write };
        let span = match random.below(2) {
            0 => Span::Key(start),
            _ => Span::Range(KeyRange::new(start, Some(end))),
        };
        footprint.add(TableId(1), span, access);
    }
    for site in design.sites().iter() {
        let serves = footprint.items().iter().all(|item| {
            let range = match &item.span {
                Span::Key(key) => KeyRange::single(key.clone()),
                Span::Range(range) => range.clone(),
            };
            design.partitions_in(item.table, &range).all(|(_, placement)| match item.access {
                Access::Read => placement.holds(site),
                Access::Write => placement.master == site,
            })
        });
        let is_home = matches!(routing.home(&footprint), Route::Sites(s) if s.contains(site));
        assert_eq!(is_home, serves, "{site} for {footprint} in {design:?}");
        assert_eq!(routing.missing_at(&footprint, site).is_empty(), serves);
    }
}

#[test]
fn designs_changes_and_footprints_print_and_come_back() {
    for seed in 0..100 {
        let mut random = Seeded(seed);
        let design = random.design(40);
        assert_eq!(Design::parse(&design.to_text()).as_ref(), Ok(&design), "seed {seed}");
        for _ in 0..20 {
            let change = random.change(&design, 20);
            let is_site = !change.to_string().ends_with(" s0");
            if is_site {
                assert_eq!(Change::parse(&change.to_text(&design), &design), Ok(change));
            }
        }
        let footprint = Footprint::new()
            .write(TableId(1), random.key(20))
            .read(TableId(4), random.key(20))
            .read_range(TableId(4), KeyRange::new(Key::min(), Some(random.key(20))));
        assert_eq!(Footprint::parse(&footprint.to_text(&design), &design), Ok(footprint));
    }
}

#[test]
fn damaged_texts_are_errors() {
    const STRANGE: [&str; 10] =
        ["'", "\\u{", "x'0", "]", "..", "\n", "#", "ä", "99999999999", "\0"];
    for seed in 0..2000 {
        let mut random = Seeded(seed);
        let design = random.design(5);
        let mut text = match seed % 3 {
            0 => design.to_text(),
            1 => random.change(&design, 20).to_text(&design),
            _ => Footprint::new().read_range(TableId(1), KeyRange::all()).to_text(&design),
        };
        for _ in 0..=random.below(3) {
            let at = random.below(text.chars().count() as u64) as usize;
            let (at, char) = text.char_indices().nth(at).unwrap();
            let end = if random.below(2) == 0 { at } else { at + char.len_utf8() };
            text.replace_range(at..end, STRANGE[random.below(10) as usize]);
        }
        // Some damaged texts are valid; the others must be errors, not panics.
        let _ = (Design::parse(&text), Change::parse(&text, &design));
        let _ = Footprint::parse(&text, &design);
    }
}

#[test]
fn partitions_tile_the_table() {
    for seed in 0..50 {
        let mut random = Seeded(seed);
        let design = random.design(30);
        let all: Vec<_> = design.partitions_in(TableId(1), &KeyRange::all()).collect();
        assert_eq!(all[0].0.start, Key::min());
        assert_eq!(all.last().unwrap().0.end, None);
        assert!(all.windows(2).all(|pair| pair[0].0.end.as_ref() == Some(&pair[1].0.start)));
        let range = KeyRange::new(random.key(30), Some(random.key(30)));
        let some = design.partitions_in(TableId(1), &range);
        assert!(
            some.eq(all.into_iter().filter(|(part, _)| !range.is_empty() && part.overlaps(&range)))
        );
    }
}
