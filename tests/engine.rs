//! The engine in one process: append, view, compact.
use hermes_log::*;

fn used(view: &View, skill: &str) -> u64 {
    view.skill(skill).map_or(0, |s| s.count(Counter::Use))
}

#[test]
fn events_of_several_segments_survive_compactions_exactly() {
    let home = tempfile::tempdir().unwrap();
    let profile = Profile::at(home.path()).with_options(Options { capacity: Some(4096), ..Options::default() });
    let mut writer = profile.writer(Origin::here("session")).unwrap();
    let mut view = profile.view().unwrap();
    for round in 1..=10u64 {
        for n in 0..500 {
            let position = writer.append(&Event::used(format!("skill-{}", n % 5)), Durability::Process).unwrap();
            assert!(position.segment > 0);
        }
        view.refresh().unwrap();
        assert_eq!(used(&view, "skill-0"), round * 100);
        let done = profile.compact(&CompactOptions::default()).unwrap();
        assert!(done.gaps.is_empty(), "{done:?}");
        assert_eq!(used(&profile.view().unwrap(), "skill-3"), round * 100);
        let text = std::fs::read_to_string(profile.snapshot_path()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["skill-4"]["use_count"], round * 100, "{done:?}");
    }
}
