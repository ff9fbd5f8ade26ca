use proptest::prelude::*;
use serde_json::json;

use super::scan::salvage;
use super::*;

/// Five skills as Hermes writes them, the third with fields of a fork.
fn sample() -> Vec<u8> {
    let mut records = Records::new();
    for (count, name) in ["alpha", "Größe 日本", "mid", "plugin:skill", "zeta"].into_iter().enumerate() {
        let mut record = record(json!({
            "archived_at": null, "created_at": "2026-01-02T03:04:05.678901+00:00", "created_by": "agent",
            "last_patched_at": null, "last_used_at": "2026-11-30T16:00:00+00:00", "last_viewed_at": null,
            "patch_count": 3, "pinned": false, "state": "active", "use_count": 10 + count, "view_count": 7,
        }));
        if name == "mid" {
            record.insert("negative_claims".to_owned(), json!([{"text": "} \", {", "weights": [1, 2.5, -1e3]}, {}]));
            record.insert("fork".to_owned(), json!(true));
            record.insert("history".to_owned(), json!({"a": {"b": {}}, "name": {"c": 1}}));
        }
        records.insert(name.to_owned(), record);
    }
    encode(&records)
}

fn record(value: Value) -> Record {
    value.as_object().cloned().unwrap()
}

fn names(found: &Found) -> Vec<&str> {
    found.records.keys().map(String::as_str).collect()
}

fn replaced(from: &str, to: &[u8]) -> Vec<u8> {
    let sample = sample();
    let at = memmem::find(&sample, from.as_bytes()).unwrap();
    [&sample[..at], to, &sample[at + from.len()..]].concat()
}

/// All that the file told must be what the undamaged sample tells, and there must be a problem.
#[track_caller]
fn all_is_found_in(bytes: &[u8]) {
    let found = decode(bytes);
    assert_eq!(found.records, decode(&sample()).records);
    assert!(!found.problems.is_empty());
}

/// One damaged skill: the others are found whole.
#[track_caller]
fn only_mid_is_touched_in(bytes: &[u8]) -> Record {
    let mut found = decode(bytes);
    let mut whole = decode(&sample()).records;
    let mid = found.records.remove("mid").unwrap_or_default();
    whole.remove("mid");
    assert_eq!(found.records, whole);
    assert!(!found.problems.is_empty());
    mid
}

/// The only record of a file, and how many problems there were.
fn lone(fields: &str) -> (Record, usize) {
    let found = decode(format!("{{\"x\": {{{fields}}}}}").as_bytes());
    (found.records.get("x").cloned().unwrap(), found.problems.len())
}

#[test]
fn what_hermes_writes_is_read_without_a_problem_and_written_alike() {
    let found = decode(&sample());
    assert_eq!(found.problems, []);
    assert_eq!(found.records.len(), 5);
    assert_eq!(encode(&found.records), sample());
}

#[test]
fn the_format_is_that_of_python() {
    let text = "{\n  \"a\": {},\n  \"ä\\\"\\\\\\n\\u0001\u{7f}\": {\n    \"f\": [],\n    \"g\": [\n      1.50,\n      {\n        \"h\": 1e+5\n      }\n    ]\n  }\n}";
    let found = decode(text.as_bytes());
    assert_eq!(found.problems, []);
    assert_eq!(String::from_utf8(encode(&found.records)).unwrap(), text);
    assert_eq!(encode(&Records::new()), b"{}");
}

#[test]
fn numbers_keep_their_spelling() {
    let spelled = r#"{"x":{"f":[1.0,1.50,1E5,1e-7,-0,-0.0,123456789012345678901234567890,0.1000000000000000055511151231257827]}}"#;
    for found in [decode(spelled.as_bytes()), salvage(spelled.as_bytes())] {
        // The one thing that serde_json respells.
        let list = found.records["x"]["f"].to_string();
        assert_eq!(list.replace("1e+5", "1E5"), &spelled[10..spelled.len() - 2]);
    }
}

#[test]
fn a_byte_order_mark_costs_nothing() {
    let marked = [BYTE_ORDER_MARK, &sample()].concat();
    all_is_found_in(&marked);
    assert_eq!(decode(&marked).problems, [Problem { offset: 0, what: "a byte order mark".to_owned() }]);
    all_is_found_in(&[&marked, &b"}"[..]].concat());
}

#[test]
fn extra_bytes_after_the_end_cost_nothing() {
    for extra in ["}", "}}", "]", "\0\0\0\0", "garbage", "\"", "{}", "{", ",", "\n}\n", ": 1, \"use_count\": 2 } }"] {
        all_is_found_in(&[&sample(), extra.as_bytes()].concat());
    }
}

#[test]
fn records_after_the_end_count_but_replace_none() {
    let twice = [&sample()[..], br#", "late": {"use_count": 4}, "mid": {"use_count": 1}}"#].concat();
    let found = decode(&twice);
    assert_eq!(found.records["late"], record(json!({"use_count": 4})));
    assert_eq!(found.records["mid"], decode(&sample()).records["mid"]);
    assert_eq!(found.records.len(), 6);
}

#[test]
fn a_top_level_that_is_no_object_holds_nothing() {
    for text in
        ["[]", "0", "null", "\"a\"", "[{\"a\": {\"use_count\": 1}}]", "", " \n", "\0\0\0\0\0\0", "NaN", "\u{feff}"]
    {
        let found = decode(text.as_bytes());
        assert_eq!(found.records.len(), 0, "{text:?}");
        assert!(!found.problems.is_empty(), "{text:?}");
    }
}

#[test]
fn a_cut_tail_costs_only_what_is_cut_off() {
    let sample = sample();
    let whole = decode(&sample).records;
    for cut in 0..sample.len() {
        let found = decode(&sample[..cut]);
        assert!(!found.problems.is_empty(), "cut at {cut}");
        for (name, record) in &found.records {
            for (field, value) in record {
                assert_eq!(Some(value), whole[name].get(field), "cut at {cut}");
            }
        }
        for (name, record) in &whole {
            let begin = memmem::find(&sample, format!("  \"{name}\": {{\n").as_bytes()).unwrap();
            let len = memmem::find(&sample[begin..], b"\n  }").unwrap() + 4;
            if begin + len <= cut {
                assert_eq!(found.records.get(name), Some(record), "cut at {cut}");
            }
        }
    }
}

#[test]
fn the_whole_fields_of_a_cut_record_count() {
    let sample = sample();
    let cut = memmem::rfind(&sample, b"\"view_count\"").unwrap();
    let found = decode(&sample[..cut]);
    assert_eq!(found.records["zeta"]["use_count"], json!(14));
    assert_eq!(found.problems.len(), 1);
    assert_eq!(found.problems[0].what, "cut off inside the record of \"zeta\"");
}

#[test]
fn a_number_that_may_have_been_longer_does_not_count() {
    for end in ["", "\0\0\0"] {
        let found = decode(format!("{{\"x\": {{\"patch_count\": 3, \"use_count\": 12{end}").as_bytes());
        assert_eq!(found.records["x"], record(json!({"patch_count": 3})));
    }
}

#[test]
fn zeros_in_the_middle_cost_only_what_they_cover() {
    let sample = sample();
    let whole = decode(&sample).records;
    let bounds: Vec<usize> = memmem::find_iter(&sample, b"\n  \"").collect();
    for start in 0..sample.len() {
        for len in [1, 17, 400] {
            let end = (start + len).min(sample.len());
            let mut bytes = sample.clone();
            bytes[start..end].fill(0);
            let found = decode(&bytes);
            assert!(!found.problems.is_empty(), "{start}, {len}");
            for (index, (name, record)) in whole.iter().enumerate() {
                let (first, last) = (bounds[index], bounds.get(index + 1).copied().unwrap_or(sample.len()));
                // What stands after the closing brace of a record is not a part of it.
                if end <= first || start >= last {
                    assert_eq!(found.records.get(name), Some(record), "{start}, {len}");
                }
            }
            assert!(found.records.keys().all(|name| whole.contains_key(name)), "{start}, {len}: {:?}", names(&found));
        }
    }
}

#[test]
fn garbage_in_one_record_leaves_the_records_on_both_sides() {
    let garbage: [&[u8]; 9] =
        [b"@@@", b"\xff\xfe\0\0", b"{{{", b"}}}", b"]", b"[", b"\"", b"\\\"", b"<<<<<<< HEAD\n  {"];
    for garbage in garbage {
        let mut whole = decode(&sample()).records.remove("mid").unwrap();
        whole.remove("fork");
        assert_eq!(only_mid_is_touched_in(&replaced("true", garbage)), whole, "{garbage:?}");
        for place in ["\"history\"", "\"a\"", "\"c\": 1", "2.5"] {
            let mid = only_mid_is_touched_in(&replaced(place, garbage));
            assert_eq!(mid["use_count"], json!(12), "{place} {garbage:?}");
        }
    }
}

#[test]
fn damage_in_a_file_without_indentation_leaves_the_records_on_both_sides() {
    let compact = r#"{"a":{"use_count":1},"b":{"use_count":2,"x":@@@,"y":{"z":1}},"c":{"use_count":3}}"#;
    for garbage in ["@", "{", "}", "[", "\"", "\0", "}}", "{{\"q"] {
        let found = decode(compact.replace("@@@", garbage).as_bytes());
        assert_eq!(found.records["a"], record(json!({"use_count": 1})), "{garbage}");
        assert_eq!(found.records["c"], record(json!({"use_count": 3})), "{garbage}");
        assert_eq!(found.records["b"]["use_count"], json!(2), "{garbage}");
    }
}

#[test]
fn a_lost_head_costs_the_first_record() {
    let sample = sample();
    let found = decode(&sample[10..]);
    assert_eq!(names(&found), ["alpha", "mid", "plugin:skill", "zeta"]);
}

#[test]
fn a_lost_brace_does_not_swallow_the_next_record() {
    let sample = String::from_utf8(sample()).unwrap();
    all_is_found_in(sample.replace("  },\n  \"", "  \"").as_bytes());
    all_is_found_in(sample.replacen("\n  },\n", "\n\n", 1).as_bytes());
    all_is_found_in(sample.replacen("\n  },\n", "\n  ],\n", 1).as_bytes());
    all_is_found_in(sample.replacen("\n  },\n", "\n  }},\n", 1).as_bytes());
}

#[test]
fn lost_and_doubled_commas_and_colons_cost_nothing() {
    let text = String::from_utf8(sample()).unwrap();
    for (from, to) in [
        ("\n  },\n", "\n  }\n"),
        ("\n  },\n", "\n  },,\n"),
        ("\"pinned\": false,", "\"pinned\": false"),
        ("\"pinned\": false,", "\"pinned\": false,,"),
        ("\"pinned\": ", "\"pinned\" "),
        ("\"pinned\": ", "\"pinned\":: "),
        ("\"mid\": ", "\"mid\" "),
        ("\"mid\": ", "\"mid\"::"),
        ("\"view_count\": 7\n", "\"view_count\": 7,\n"),
    ] {
        assert!(text.contains(from));
        all_is_found_in(text.replace(from, to).as_bytes());
    }
}

#[test]
fn bytes_that_are_not_utf_8_change_one_name_or_field() {
    let mut latin = br#"{"caf"#.to_vec();
    latin.extend(b"\xe9\": {\"use_count\": 1}, \"b\": {\"note\": \"\x80\xc3\xa9\", \"use_count\": 2}}");
    let found = decode(&latin);
    assert_eq!(names(&found), ["b", "café"]);
    assert_eq!(found.records["b"], record(json!({"note": "\u{80}é", "use_count": 2})));
    assert_eq!(found.problems.len(), 2);
    assert_eq!(found.problems[0].offset, 1);
}

#[test]
fn a_hole_from_one_record_into_the_next_gives_the_first_none_of_its_numbers() {
    let record = |name: &str, uses: u64| {
        format!(
            "  \"{name}\": {{\n    \"archived_at\": null,\n    \"created_by\": \"agent\",\n    \"pinned\": false,\n    \"use_count\": {uses},\n    \"view_count\": {uses}\n  }}"
        )
    };
    let text = format!("{{\n{},\n{},\n{}\n}}\n", record("alpha", 1), record("beta", 2), record("gamma", 3));
    let (begin, end) = (text.find("\"use_count\": 1").unwrap(), text.find("beta").unwrap() + 5);
    for fill in [b'\0', b'x'] {
        let mut bytes = text.clone().into_bytes();
        bytes[begin..end].fill(fill);
        let found = decode(&bytes);
        assert_eq!(found.records.keys().collect::<Vec<_>>(), ["alpha", "gamma"], "{found:?}");
        assert_eq!(found.records["alpha"].get("use_count"), None);
        assert_eq!(found.records["alpha"]["created_by"], "agent");
        assert_eq!(found.records["gamma"]["use_count"], 3);
        assert!(found.problems.iter().any(|problem| problem.what.contains("without a name")), "{found:?}");
    }
}

#[test]
fn names_with_half_a_surrogate_pair_stay_apart() {
    let found = decode(
        br#"{"\ud800": {"use_count": 1}, "\uD801x": {"use_count": 2}, "\udc00\ud83d\ude00": {"a": "\ud83d\u0041"}}"#,
    );
    assert_eq!(names(&found), ["\\uD801x", "\\ud800", "\\udc00😀"]);
    assert_eq!(found.records["\\udc00😀"]["a"], json!("\\ud83dA"));
    assert_eq!(found.problems.len(), 4);
}

#[test]
fn an_unknown_escape_stays_as_it_is() {
    let found = decode(br#"{"a\qb": {"c": "\u12G4\/"}}"#);
    assert_eq!(found.records["a\\qb"], record(json!({"c": "\\u12G4/"})));
    assert_eq!(found.problems.len(), 2);
}

#[test]
fn values_that_are_no_objects_are_skipped() {
    for tail in ["}", "}}"] {
        let found =
            decode(format!(r#"{{"version": 1, "a": {{}}, "list": [{{"x": {{}}}}], "b": {{}}{tail}"#).as_bytes());
        assert_eq!(names(&found), ["a", "b"]);
        assert!(found.problems.len() >= 2);
    }
}

#[test]
fn a_field_that_is_not_a_number_is_dropped() {
    let (fields, problems) = lone(r#""a": NaN, "b": [1, -Infinity], "c": Infinity, "use_count": 5"#);
    assert_eq!((fields, problems), (record(json!({"use_count": 5})), 3));
}

#[test]
fn of_two_records_of_one_name_the_later_counts() {
    assert_eq!(
        decode(br#"{"a": {"use_count": 1}, "a": {"view_count": 2}}"#).records["a"],
        record(json!({"view_count": 2}))
    );
    assert_eq!(
        decode(br#"{"a": {"use_count": 1}, "a": {"view_count": 2},}"#).records["a"],
        record(json!({"view_count": 2}))
    );
}

#[test]
fn an_object_that_serde_takes_for_a_number_stays_an_object() {
    let text = br#"{"a": {"$serde_json::private::Number": "12"}}"#;
    let found = decode(text);
    assert_eq!(found.records["a"].get("$serde_json::private::Number"), Some(&json!("12")));
    assert_eq!(found.problems, []);
}

#[test]
fn counts_of_a_wrong_type_are_read_as_what_they_mean() {
    for (written, meant) in [
        ("\"12\"", 12_u64),
        ("\" 12 \"", 12),
        ("\"12.0\"", 12),
        ("12.0", 12),
        ("1.2e1", 12),
        ("-0", 0),
        ("-1", 0),
        ("\"-1\"", 0),
        ("1.5", 0),
        ("\"abc\"", 0),
        ("\"\"", 0),
        ("true", 0),
        ("[1]", 0),
        ("{}", 0),
        ("18446744073709551616", 0),
        ("1e300", 0),
    ] {
        let (fields, problems) = lone(&format!("\"use_count\": {written}, \"view_count\": 1, \"patch_count\": null"));
        assert_eq!(fields, record(json!({"use_count": meant, "view_count": 1, "patch_count": null})), "{written}");
        assert_eq!(problems, 1, "{written}");
    }
    assert_eq!(lone("\"use_count\": 18446744073709551615"), (record(json!({"use_count": u64::MAX})), 0));
}

#[test]
fn pins_of_a_wrong_type_are_read_as_what_they_mean() {
    for (written, meant, problems) in [
        ("true", json!(true), 0),
        ("false", json!(false), 0),
        ("null", json!(null), 0),
        ("\"false\"", json!(false), 1),
        ("\"True\"", json!(true), 1),
        ("1", json!(true), 1),
        ("0", json!(false), 1),
        ("2", json!(false), 1),
        ("[]", json!(false), 1),
    ] {
        assert_eq!(lone(&format!("\"pinned\": {written}")), (record(json!({"pinned": meant})), problems), "{written}");
    }
}

#[test]
fn times_and_states_of_a_wrong_type_are_dropped() {
    let (fields, problems) = lone(
        r#""created_at": 17, "last_used_at": "soon", "archived_at": "", "last_viewed_at": "2026-01-02", "state": 3, "created_by": 4"#,
    );
    let meant = json!({"created_at": null, "last_used_at": null, "archived_at": null, "last_viewed_at": "2026-01-02",
        "state": "active", "created_by": 4});
    assert_eq!((fields, problems), (record(meant), 4));
    assert_eq!(lone("\"state\": \"parked\", \"created_by\": null").1, 0);
    assert_eq!(lone("\"state\": null").0["state"], json!("active"));
}

#[test]
fn a_wrong_field_is_reported_where_its_record_is() {
    let found = decode(br#"{"a": {}, "b": {"use_count": "x"}}"#);
    assert_eq!(found.problems, [Problem { offset: 10, what: "use_count of \"b\" is of the wrong type".to_owned() }]);
}

/// Expectations printed by Python 3.11.
#[test]
fn times_are_read_as_python_reads_them() {
    for (text, micros) in [
        ("2026-11-30T16:02:40.123456+00:00", Some(1_796_054_560_123_456)),
        ("2026-11-30T16:02:40Z", Some(1_796_054_560_000_000)),
        ("2026-11-30 16:02:40", Some(1_796_054_560_000_000)),
        ("2026-11-30_16:02:40", Some(1_796_054_560_000_000)),
        ("2026-11-30T18:02:40+02:00", Some(1_796_054_560_000_000)),
        ("20261130T160240", Some(1_796_054_560_000_000)),
        ("2026-11-30T160240-0000", Some(1_796_054_560_000_000)),
        ("2026-11-30T16:02", Some(1_796_054_520_000_000)),
        ("2026-11-30", Some(1_795_996_800_000_000)),
        ("2026-11-30T16:02:40.5", Some(1_796_054_560_500_000)),
        ("2026-11-30T16:02:40,123456789Z", Some(1_796_054_560_123_456)),
        ("1969-12-31T23:59:59.9999999+00:00", Some(-1)),
        ("0001-01-01T00:00:00+00:00", Some(-62_135_596_800_000_000)),
        ("9999-12-31T23:59:59.999999+00:00", Some(253_402_300_799_999_999)),
        ("0000-01-01T00:00:00", None),
        ("2026-02-29", None),
        ("2026-11-30T16:02:60", None),
        ("2026-11-30T160260", None),
        ("2026-11-30T160260+00:00", None),
        ("2026-11-30T24:00:00", None),
        ("2026-11-30T16:02:40+24:00", None),
        ("2026-11-30T16:02:40[UTC]", None),
        ("2026-11-30T16:02:40z", None),
        ("2026-11-30T", None),
        ("-02026-11-30", None),
        ("1796054560", None),
        ("soon", None),
        ("", None),
        ("日本日本日本", None),
    ] {
        assert_eq!(parse_time(text), micros, "{text}");
    }
}

#[test]
fn times_are_written_as_python_writes_them() {
    assert_eq!(format_time(0), "1970-01-01T00:00:00+00:00");
    assert_eq!(format_time(1_796_054_560_123_456), "2026-11-30T16:02:40.123456+00:00");
    assert_eq!(format_time(1_796_054_560_000_001), "2026-11-30T16:02:40.000001+00:00");
    assert_eq!(format_time(-1), "1969-12-31T23:59:59.999999+00:00");
    assert_eq!(format_time(i64::MIN), "0001-01-01T00:00:00+00:00");
    assert_eq!(format_time(i64::MAX), "9999-12-31T23:59:59.999999+00:00");
}

#[test]
fn every_flipped_bit_costs_at_most_one_record() {
    let sample = sample();
    let whole = decode(&sample).records;
    for at in 0..sample.len() {
        for bit in 0..8 {
            let mut bytes = sample.clone();
            bytes[at] ^= 1 << bit;
            let found = decode(&bytes);
            let same = whole.iter().filter(|&(name, record)| found.records.get(name) == Some(record)).count();
            assert!(same >= whole.len() - 1, "byte {at}, bit {bit}: {:?}", names(&found));
            assert!(found.records.len() <= whole.len(), "byte {at}, bit {bit}: {:?}", names(&found));
        }
    }
}

/// Each of these takes minutes if any of its bytes is visited once per other byte.
#[test]
fn hostile_bytes_take_linear_time() {
    for piece in [
        "[",
        "{",
        "\"",
        "\\",
        "\\\"",
        "\"\\",
        "}",
        ",",
        ":",
        " ",
        "\n",
        "\0",
        "a",
        "\u{feff}",
        "{\"a\":",
        "{\"a\":{",
        "\"a\": {",
        "\"a\" ",
        "\"\"",
        "\n  \"a\": {",
        "\n    \"a\":",
        "\"a\":{}}",
        "\"a\":1,",
        "1",
        "\"use_count\":[",
        "\"use_count\": \"x\",",
        "\\u",
        "\\ud800",
        "{\"\\",
        "\n  }",
    ] {
        for start in ["", "{", "{\"a\": {", "{\n  \"a\": {\n    \"", "{\"a\": {\"b\": \"", "{}"] {
            let bytes = [start, &piece.repeat(300_000 / piece.len())].concat();
            assert!(decode(bytes.as_bytes()).problems.len() <= MAX_PROBLEMS);
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

fn records() -> impl Strategy<Value = Records> {
    let known = (any::<u64>(), any::<bool>(), -62_135_596_800_000_000..253_402_300_800_000_000_i64);
    let fields = prop::collection::btree_map(any::<String>(), json_value(), 0..5);
    let record = (fields, known).prop_map(|(fields, (count, pinned, micros))| {
        let mut record: Record = fields.into_iter().collect();
        record.insert("use_count".to_owned(), count.into());
        record.insert("pinned".to_owned(), pinned.into());
        record.insert("created_at".to_owned(), format_time(micros).into());
        record
    });
    prop::collection::btree_map(any::<String>(), record, 0..6)
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(records in records()) {
        let bytes = encode(&records);
        prop_assert_eq!(&decode(&bytes), &Found { records: records.clone(), problems: Vec::new() });
        let compact = serde_json::to_vec(&records).unwrap();
        prop_assert_eq!(&decode(&compact), &Found { records, problems: Vec::new() });
    }

    #[test]
    fn the_scanner_reads_json_as_json(records in records()) {
        prop_assert_eq!(&salvage(&encode(&records)), &Found { records, problems: Vec::new() });
    }

    #[test]
    fn times_are_read_as_they_are_written(micros in -62_135_596_800_000_000..253_402_300_800_000_000_i64) {
        prop_assert_eq!(parse_time(&format_time(micros)), Some(micros));
    }

    #[test]
    fn any_bytes_are_read(bytes in any::<Vec<u8>>()) {
        prop_assert!(decode(&bytes).problems.len() <= MAX_PROBLEMS);
    }

    #[test]
    fn any_damage_is_read_and_reported(records in records(), at in any::<prop::sample::Index>(), garbage in any::<Vec<u8>>(), cut in 0..40_usize) {
        let bytes = encode(&records);
        let at = at.index(bytes.len());
        let damaged = [&bytes[..at], &garbage, bytes.get(at + cut..).unwrap_or_default()].concat();
        let found = decode(&damaged);
        prop_assert!(!found.problems.is_empty() || serde_json::from_slice::<Value>(&damaged).is_ok());
    }
}
