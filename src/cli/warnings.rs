//! What the library warns of, as this program's own messages are.

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::cli::output::print_warning;

/// Prints each event as one warning.
pub(crate) struct Warnings {
    pub(crate) json: bool,
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut told = Told::default();
        event.record(&mut told);
        let Told { message, fields } = told;
        let text = match (message.is_empty(), fields.is_empty()) {
            (_, true) => message,
            (true, false) => fields,
            (false, false) => format!("{message} ({fields})"),
        };
        print_warning(self.json, &text);
    }
}

#[derive(Default)]
struct Told {
    message: String,
    fields: String,
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" | "gap" => write!(self.fields, "{}{value:?}", separator(&self.fields)),
            name => write!(self.fields, "{}{name} {value:?}", separator(&self.fields)),
        };
    }
}

fn separator(before: &str) -> &'static str {
    if before.is_empty() { "" } else { ", " }
}
