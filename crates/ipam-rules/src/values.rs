//! Values of JSON as values of CEL. Texts are borrowed, so copies of a value stay small.

use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use serde_json::Value;

/// The value. Whole numbers are `int`, or `uint` above its range.
pub(crate) fn value(json: &Value) -> Box<dyn Val + '_> {
    match json {
        Value::Null => Box::new(CelNull),
        Value::Bool(is) => Box::new(CelBool::from(*is)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Box::new(CelInt::from(number)),
            (None, Some(number)) => Box::new(CelUInt::from(number)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => {
            let items: Vec<Box<dyn Val + '_>> = items.iter().map(value).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(fields) => {
            let fields: HashMap<CelMapKey<'_>, Box<dyn Val + '_>> = fields
                .iter()
                .map(|(key, field)| (CelMapKey::from(key.as_str()), value(field)))
                .collect();
            Box::new(CelMap::from(fields))
        }
    }
}
