//! JSON inside MessagePack, as text: numbers and whatever else stands there are kept to the letter.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

pub(super) fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&serde_json::to_string(&**value).map_err(ser::Error::custom)?)
}

pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
    let text = <Cow<'de, str>>::deserialize(deserializer)?;
    serde_json::from_str(&text).map(Arc::new).map_err(de::Error::custom)
}
