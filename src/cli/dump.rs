//! `dump`: a segment's header and frames, field by field.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::args::Global;
use crate::cli::display;
use crate::cli::entries;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::cli::segment::{self, Item, Seal, SegmentFile};
use crate::event::Line;
use crate::event::batch::{self, Batch};
use crate::log::format::{KNOWN_FEATURES, UnverifiedHeader, VERSION};

pub(crate) const HELP: &str = "\
Examples:
  hermes-log dump 3
  hermes-log dump ~/.hermes/event-log/00000000000000000003.seg
  hermes-log dump 3 --json | jq -c .frame

Works on a segment below the floor too, and on one whose header does not check out. The exit code is
3 if there are gaps.

With --json one object a line: {\"segment\": {\"path\", \"length\", \"state\": \"live\" | \"sealed\" |
\"read as sealed\", \"header\": {...} or null, \"header_hex\": HEX}}, then in order
{\"frame\": {\"offset\", \"length\", \"crc\", \"time\", \"origin\", \"events\", \"not_understood\"}} (time, origin
and events are null if the payload has another shape), {\"gap\": {...}}, {\"void\": {\"offset\",
\"length\", \"crc\"}}, at last {\"end\": {\"offset\": N}}. Lengths are those of the payload.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of a segment of the profile, or path of a .seg file
    segment: String,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let file = SegmentFile::read(&path(&args.segment, global)?)?;
    print_header(&file, out)?;
    if let Some(gap) = file.bad() {
        let gap = gap?;
        if out.is_json() {
            out.value(&json!({"gap": display::gap_json(&gap)}))?;
        }
        out.warning(&gap.to_string());
        return Ok(Exit::Gaps);
    }
    if let (Ok(header), Some(number)) = (file.header, file.number_by_name())
        && header.number != number
    {
        out.warning(&format!("readers take it for a gap: by its name it is segment {number}, not {}", header.number));
    }
    let mut gaps = 0;
    let mut outcome = Ok(());
    let end = file.scan(|item| {
        gaps += u64::from(matches!(item, Item::Gap(_)));
        outcome = if out.is_json() { out.value(&item_json(&item)) } else { print_item(&item, out) };
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    outcome?;
    if out.is_json() {
        out.value(&json!({"end": {"offset": end}}))?;
    } else {
        out.line(&format!("{end:>10}  end"))?;
    }
    if gaps > 0 {
        out.warning(&display::count(gaps, "gap"));
    }
    Ok(Exit::with_gaps(gaps > 0))
}

fn path(segment: &str, global: &Global) -> Result<PathBuf, Failure> {
    match segment.parse::<u64>() {
        Ok(number) => Ok(segment::path(&global.profile()?, number)),
        Err(_) if segment.ends_with(".seg") || segment.contains('/') => Ok(PathBuf::from(segment)),
        Err(_) => {
            let found = display::escape(segment);
            Err(Failure::usage(format!("segment: \"{found}\"; allowed: a number, or the path of a .seg file")))
        }
    }
}

fn state(seal: Seal) -> &'static str {
    match seal {
        Seal::Live => "live",
        Seal::Sealed => "sealed",
        Seal::ReadAsSealed => "read as sealed",
    }
}

fn print_header(file: &SegmentFile, out: &mut Output) -> Result<(), Failure> {
    let path = file.path.to_string_lossy();
    if out.is_json() {
        let header = file.header.ok().map(|header| {
            json!({
                "version": VERSION,
                "features": KNOWN_FEATURES,
                "capacity": header.capacity,
                "log_id": display::hex(&header.log_id),
                "number": header.number,
                "salt": format!("{:016x}", header.salt),
                "created": display::exact_time(header.created),
            })
        });
        return out.value(&json!({"segment": {
            "path": path,
            "length": file.len,
            "state": state(file.seal),
            "header": header,
            "header_hex": display::hex(file.head()),
        }}));
    }
    let mut fields = vec![("path", display::escape(&path).into_owned()), ("length", display::number(file.len))];
    match file.header {
        Ok(header) => fields.extend([
            ("state", state(file.seal).into()),
            ("version", VERSION.to_string()),
            ("features", format!("{KNOWN_FEATURES:08x}")),
            ("capacity", display::number(header.capacity.into())),
            ("log id", display::hex(&header.log_id)),
            ("number", header.number.to_string()),
            ("salt", format!("{:016x}", header.salt)),
            ("created", {
                let micros = i64::try_from(header.created).unwrap_or(i64::MAX);
                format!("{} ({})", display::ago(micros), display::exact_time(header.created))
            }),
        ]),
        Err(_) => fields.push(("header", "does not check out; its first bytes:".into())),
    }
    out.fields(fields)?;
    if file.header.is_err() {
        for (row, bytes) in file.head().chunks(16).enumerate() {
            out.line(&format!("{:>10}  {}", row * 16, display::hex(bytes)))?;
        }
        return Ok(());
    }
    out.line("")?;
    out.heading(&format!("{:>10}  {:>7}  {:<8}  FRAME", "OFFSET", "LENGTH", "CRC"))
}

fn print_item(item: &Item<'_>, out: &mut Output) -> Result<(), Failure> {
    let place = |offset: u64, header: &UnverifiedHeader| {
        format!("{offset:>10}  {:>7}  {:08x}", display::number(header.payload_len.into()), header.crc)
    };
    match item {
        Item::Frame { offset, header, payload } => {
            let batch = batch::decode(payload);
            let from = match &batch {
                Some(batch) => format!("{}  {}", display::exact_time(batch.time), display::origin(&batch.origin)),
                None => "-".into(),
            };
            out.line(&format!("{}  {from}", place(*offset, header)))?;
            for described in entries::describe_all(batch.as_ref()) {
                out.line(&format!("{:31}{described}", ""))?;
            }
            Ok(())
        }
        Item::Gap(gap) => {
            let len = display::number(gap.len.unwrap_or(0));
            out.line(&format!("{:>10}  {len:>7}  {:8}  gap: {}", gap.position.offset, "", gap.reason))
        }
        Item::Void { offset, header } => out.line(&format!(
            "{}  void: it ends beyond the capacity, and is in the next segment",
            place(*offset, header)
        )),
    }
}

fn item_json(item: &Item<'_>) -> Value {
    let place = |offset: u64, header: &UnverifiedHeader| json!({"offset": offset, "length": header.payload_len, "crc": format!("{:08x}", header.crc)});
    match item {
        Item::Frame { offset, header, payload } => {
            let mut frame = place(*offset, header);
            if let Some(frame) = frame.as_object_mut() {
                let batch = batch::decode(payload);
                frame.insert("time".into(), batch.as_ref().map(|batch| display::exact_time(batch.time)).into());
                frame.insert("origin".into(), batch.as_ref().map(|b| display::origin_json(&b.origin)).into());
                frame.insert("events".into(), batch.as_ref().map(events_json).into());
                let unapplied = match &batch {
                    Some(batch) => batch.carried.as_ref().map(entries::unapplied_json),
                    None => Some("payload".into()),
                };
                frame.insert("not_understood".into(), unapplied.into());
            }
            json!({"frame": frame})
        }
        Item::Gap(gap) => json!({"gap": display::gap_json(gap)}),
        Item::Void { offset, header } => json!({"void": place(*offset, header)}),
    }
}

fn events_json(batch: &Batch<'_>) -> Value {
    batch.events.iter().map(|event| Value::Object(Line::encode(event))).collect()
}
