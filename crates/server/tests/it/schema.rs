//! Just enough of JSON Schema to hold answers against the OpenAPI document: references, `allOf`, `oneOf`, types,
//! `enum`, `properties`, `required`, `items`. Properties that the schema does not know are faults.

use serde_json::Value;
use std::collections::BTreeSet;

pub(crate) struct Schemas<'a> {
    pub(crate) document: &'a Value,
}

impl<'a> Schemas<'a> {
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => {
                let found = self.document.pointer(reference.trim_start_matches('#'));
                found.unwrap_or_else(|| panic!("{reference} leads nowhere"))
            }
            None => schema,
        }
    }

    /// What is wrong with a value, if anything.
    pub(crate) fn fault(&self, schema: &'a Value, value: &Value, at: &str) -> Option<String> {
        let schema = self.resolve(schema);
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            let faults: Vec<_> = choices.iter().map(|choice| self.fault(choice, value, at)).collect();
            return if faults.iter().any(Option::is_none) { None } else { Some(format!("{at}: {faults:?}")) };
        }
        let mut known = BTreeSet::new();
        if let Some(fault) = self.properties(schema, value, at, &mut known) {
            return Some(fault);
        }
        if let (false, Some(object)) = (known.is_empty(), value.as_object())
            && let Some(unknown) = object.keys().find(|name| !known.contains(name.as_str()))
        {
            return Some(format!("{at}/{unknown}: not in the schema"));
        }
        None
    }

    fn properties(
        &self,
        schema: &'a Value,
        value: &Value,
        at: &str,
        known: &mut BTreeSet<&'a str>,
    ) -> Option<String> {
        let schema = self.resolve(schema);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            if let Some(fault) = self.properties(part, value, at, known) {
                return Some(fault);
            }
        }
        if !has_type(&schema["type"], value) {
            return Some(format!("{at}: {value} is not {}", schema["type"]));
        }
        if let Some(choices) = schema["enum"].as_array()
            && !choices.contains(value)
        {
            return Some(format!("{at}: {value} is none of {choices:?}"));
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.is_object() && value.get(name).is_none() {
                return Some(format!("{at}/{name}: missing"));
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            known.insert(name);
            if let Some(inner) = value.get(name)
                && let Some(fault) = self.fault(property, inner, &format!("{at}/{name}"))
            {
                return Some(fault);
            }
        }
        if schema["items"].is_object() {
            for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                if let Some(fault) = self.fault(&schema["items"], item, &format!("{at}/{index}")) {
                    return Some(fault);
                }
            }
        }
        None
    }
}

fn has_type(wanted: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    };
    match wanted {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}
