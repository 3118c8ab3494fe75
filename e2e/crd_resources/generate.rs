//! Schemas that an API server takes, and values for them that are valid about half of the time. The same seed gives the
//! same ones.

use serde_json::{Map, Value, json};

use crate::harness::chance::Chance;

/// The deepest schema and value.
const DEEPEST: usize = 4;

/// Texts of all kinds: names, numbers, times, with characters that patterns and formats look at.
pub(super) const TEXTS: [&str; 80] = [
    "",
    "a",
    "ab",
    "abc",
    "A",
    "a-b",
    "a.b",
    "a_b",
    "-a",
    "a-",
    "1",
    "12",
    "1.5",
    "é",
    "日本",
    "a b",
    "x.example.com",
    "10.0.0.1",
    "::1",
    "10.0.0.0/8",
    "fe80::1/64",
    "00:00:5e:00:53:01",
    "123e4567-e89b-12d3-a456-426614174000",
    "aGk=",
    "aGkh",
    "2024-02-29",
    "2023-02-29",
    "2024-02-29T10:00:00Z",
    "2024-02-29T10:00:00.5+01:00",
    "2024-02-29 10:00:00",
    "1h30m",
    "1h",
    "90s",
    "5%",
    "100m",
    "1Gi",
    "#fff",
    "true",
    "key=value",
    "a\nb",
    "http://a.example/b?c=d",
    "http://a.example:8080",
    "https://u:p@h/",
    "http://[::1]:80/",
    "http://a b",
    "http://a:x/",
    "/a/b%20c",
    "/%",
    "mailto:a@b",
    "*",
    "a:b",
    "//a",
    "http://[fe80::1%25en0]/",
    "a@b.example",
    "A <a@b>",
    "\"x y\"@b",
    "a@[10.0.0.1]",
    "a..b@c",
    "a@b (c)",
    "g: a@b;",
    "0123456789abcdef01234567",
    "0-306-40615-2",
    "9780306406157",
    "080442957X",
    "rgb(1, 20,255)",
    "rgb(1,2,256)",
    "1500m",
    "1.5Gi",
    "1e3",
    "-2",
    "0.5",
    "12Q",
    "10.1.0.0/16",
    "10.0.0.0/33",
    "::/0",
    "127.0.0.1",
    "169.254.0.1",
    "224.0.0.1",
    "0:0::1",
    "::ffff:1.2.3.4",
];

pub(super) const FORMATS: [&str; 25] = [
    "date",
    "date-time",
    "duration",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "byte",
    "hostname",
    "hexcolor",
    "password",
    "unknown-format",
    "k8s-short-name",
    "k8s-long-name",
    "uri",
    "email",
    "bsonobjectid",
    "isbn",
    "isbn10",
    "isbn13",
    "rgbcolor",
    "ssn",
    "uuid3",
    "uuid4",
];

const PATTERNS: [&str; 12] = [
    "^a",
    "b$",
    "^[a-z]+$",
    r"^\d+$",
    r"^[\w.-]+$",
    "^(a|b)*$",
    r"^\S+$",
    "^[^-]",
    "^.{1,3}$",
    "(?i)^AB",
    "^[0-9]+(m|Gi)$",
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$",
];

/// Rules about a text.
pub(super) const TEXT_RULES: [&str; 34] = [
    "self.size() > 1",
    "self.startsWith('a') || self.endsWith('b')",
    "self.contains('-') == false",
    "self.matches('^[a-z]+$')",
    "self in ['a', 'abc', '']",
    "self.lowerAscii() == self",
    "self.indexOf('b') >= 0",
    "self.split('.').size() == 2",
    "self == '' || self.substring(0, 1) == 'a'",
    "self.replace('a', 'b').find('[b]+') == 'b'",
    "self.size() < 4 ? true : self.charAt(3) == 'm'",
    "isIP(self) || self.trim() == self",
    "int(self) > 5",
    "duration(self) < duration('2h')",
    "isQuantity(self)",
    "quantity(self).isInteger()",
    "quantity(self).isGreaterThan(quantity('1'))",
    "quantity(self).compareTo(quantity('1500m')) == 0",
    "sign(quantity(self).add(1)) > 0",
    "quantity(self).asApproximateFloat() > 1.0",
    "isURL(self)",
    "url(self).getScheme() == 'http'",
    "url(self).getHostname() == 'a.example'",
    "url(self).getPort() != ''",
    "url(self).getEscapedPath() == '/'",
    "'c' in url(self).getQuery() && url(self).getQuery()['c'][0] == 'd'",
    "isIP(self) && ip(self).family() == 4",
    "isIP(self) && ip.isCanonical(self)",
    "ip(self).isGlobalUnicast()",
    "ip(self).isLinkLocalUnicast() || ip(self).isLinkLocalMulticast() || ip(self).isLoopback()",
    "isCIDR(self)",
    "cidr(self).containsIP('10.0.0.1')",
    "cidr('10.0.0.0/8').containsCIDR(self)",
    "cidr(self).masked() == cidr(self) && cidr(self).prefixLength() > 0",
];

const NUMBER_RULES: [&str; 6] = [
    "self > 2",
    "self >= 1 && self < 100",
    "self == 1 || self == 5",
    "self * self < 50",
    "self in [0, 1, 2, 3]",
    "string(self).size() < 3",
];

const LIST_RULES: [&str; 8] = [
    "self.size() < 3",
    "self.all(x, self.exists_one(y, x == y))",
    "self.exists(x, x == self[0])",
    "self.map(x, x).size() == self.filter(x, true).size()",
    "self == self.map(x, x)",
    "self[1] != self[0]",
    "self.indexOf(self[0]) == 0",
    "sets.equivalent(self, self)",
];

/// Schemas and objects from a seed.
pub(super) struct Generator(Chance);

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self(Chance::new(seed))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A structural schema.
    pub(super) fn schema(&mut self, depth: usize) -> Value {
        let kinds = if depth < 2 { 9 } else { 5 };
        let mut schema = match self.below(kinds) {
            0 => self.text(),
            1 => self.number("integer"),
            2 => self.number("number"),
            3 => json!({"type": "boolean"}),
            4 => self.either(),
            5 => self.object(depth),
            6 => self.map(depth),
            7 => self.list(depth),
            _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        if self.one_in(6) {
            schema["nullable"] = json!(true);
        }
        schema
    }

    fn text(&mut self) -> Value {
        let mut schema = json!({"type": "string"});
        match self.below(6) {
            0 => schema["minLength"] = json!(self.below(4)),
            1 => schema["maxLength"] = json!(self.below(6)),
            2 => schema["pattern"] = json!(self.pick(&PATTERNS)),
            3 => schema["format"] = json!(self.pick(&FORMATS)),
            4 => schema["enum"] = json!([self.pick(&TEXTS), "a", "abc"]),
            _ => {
                let rule = self.pick(&TEXT_RULES);
                schema["maxLength"] = json!(50);
                schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
            }
        }
        self.combine(
            &mut schema,
            &[
                json!({"minLength": 2}),
                json!({"maxLength": 3}),
                json!({"pattern": "^a"}),
                json!({"enum": ["a", "ab", "1"]}),
            ],
        );
        if self.one_in(5)
            && schema.get("enum").is_none()
            && schema.as_object().is_some_and(|schema| schema.len() == 1)
        {
            schema["default"] = json!("abc");
        }
        schema
    }

    fn number(&mut self, kind: &str) -> Value {
        let mut schema = json!({"type": kind});
        match self.below(6) {
            0 => {
                schema["minimum"] = json!(self.below(5));
                schema["exclusiveMinimum"] = json!(self.one_in(2));
            }
            1 => {
                schema["maximum"] = json!(self.below(5));
                schema["exclusiveMaximum"] = json!(self.one_in(2));
            }
            2 => schema["multipleOf"] = json!(self.pick(&[2, 3, 5])),
            3 if kind == "integer" => schema["format"] = json!(self.pick(&["int32", "int64"])),
            4 => schema["enum"] = json!([1, 5, 7]),
            _ => {
                let rule = self.pick(&NUMBER_RULES);
                schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
            }
        }
        self.combine(
            &mut schema,
            &[
                json!({"minimum": 2}),
                json!({"maximum": 6}),
                json!({"enum": [1, 5]}),
            ],
        );
        schema
    }

    fn either(&mut self) -> Value {
        let mut schema = json!({"x-kubernetes-int-or-string": true});
        if self.one_in(2) {
            schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
        }
        match self.below(3) {
            0 => schema["pattern"] = json!("^[0-9]+%?$"),
            1 => schema["maximum"] = json!(10),
            _ => {
                schema["x-kubernetes-validations"] = json!([{"rule": "self == 5 || self == '5%'"}]);
            }
        }
        schema
    }

    fn object(&mut self, depth: usize) -> Value {
        let names = ["a", "b", "c-d", "namespace"];
        let mut properties = Map::new();
        for name in names.iter().take(2 + self.below(3)) {
            properties.insert((*name).to_owned(), self.schema(depth + 1));
        }
        let mut schema = json!({"type": "object", "properties": properties});
        match self.below(6) {
            0 => schema["required"] = json!(["a"]),
            1 => schema["minProperties"] = json!(1),
            2 => schema["maxProperties"] = json!(1),
            3 => schema["x-kubernetes-preserve-unknown-fields"] = json!(true),
            4 => {
                let rule = self.pick(&[
                    "has(self.a)",
                    "!has(self.a) || has(self.b)",
                    "has(self.a) != has(self.b)",
                    "self == self",
                ]);
                schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
            }
            _ => {}
        }
        self.combine(
            &mut schema,
            &[
                json!({"required": ["a"]}),
                json!({"required": ["b"]}),
                json!({"properties": {"a": {"enum": ["a", 1, true]}}}),
            ],
        );
        schema
    }

    fn map(&mut self, depth: usize) -> Value {
        let mut schema = json!({"type": "object", "additionalProperties": self.schema(depth + 1)});
        match self.below(4) {
            0 => schema["minProperties"] = json!(1),
            1 => schema["maxProperties"] = json!(1),
            2 => {
                schema["maxProperties"] = json!(10);
                let rule = self.pick(&[
                    "self.all(k, k.startsWith('a'))",
                    "'a' in self",
                    "self.size() < 2",
                ]);
                // Rules need values that they can see.
                if schema["additionalProperties"]
                    .get("x-kubernetes-preserve-unknown-fields")
                    .is_none()
                {
                    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
                }
            }
            _ => {}
        }
        schema
    }

    fn list(&mut self, depth: usize) -> Value {
        let mut schema = match self.below(4) {
            0 => {
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})
            }
            1 => {
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items":
                {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": self.schema(depth + 2)}}})
            }
            2 => {
                let kind = self.pick(&["string", "integer"]);
                let rule = self.pick(&LIST_RULES);
                json!({"type": "array", "maxItems": 5, "items": {"type": kind, "maxLength": 20},
                    "x-kubernetes-validations": [{"rule": rule}]})
            }
            _ => json!({"type": "array", "items": self.schema(depth + 1)}),
        };
        if schema["items"]["type"] == "integer"
            && let Some(items) = schema["items"].as_object_mut()
        {
            items.remove("maxLength");
        }
        match self.below(4) {
            0 => schema["minItems"] = json!(1),
            1 if schema.get("maxItems").is_none() => schema["maxItems"] = json!(2),
            _ => {}
        }
        schema
    }

    fn combine(&mut self, schema: &mut Value, parts: &[Value]) {
        let first = parts[self.below(parts.len())].clone();
        let second = parts[self.below(parts.len())].clone();
        match self.below(12) {
            0 => schema["allOf"] = json!([first, second]),
            1 => schema["anyOf"] = json!([first, second]),
            2 => schema["oneOf"] = json!([first, second]),
            3 => schema["not"] = first,
            _ => {}
        }
    }

    /// A value that mostly has the form of the schema.
    pub(super) fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if self.one_in(25) || depth > DEEPEST * 3 {
            return self.anything();
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !self.one_in(4)
            && !allowed.is_empty()
        {
            return allowed[self.below(allowed.len())].clone();
        }
        if schema.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
            return self
                .pick(&[
                    json_number(5),
                    json_number(50),
                    Scalar::Text("5%"),
                    Scalar::Text("x"),
                ])
                .value();
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => match schema.get("format").and_then(Value::as_str) {
                Some("date-time") if !self.one_in(4) => json!("2024-02-29T10:00:00Z"),
                _ => json!(self.pick(&TEXTS)),
            },
            Some("integer") => json!(self.pick(&[-1, 0, 1, 2, 3, 5, 7, 10, 30, 3_000_000_000_i64])),
            Some("number") => match self.below(2) {
                0 => json!(self.pick(&[-1, 0, 1, 2, 3, 5, 7, 10])),
                _ => json!(self.pick(&[0.5, 1.5, 2.5, 4.0, 6.25])),
            },
            Some("boolean") => json!(self.one_in(2)),
            Some("array") => {
                let count = self.below(4);
                let item = schema.get("items").cloned().unwrap_or(json!({}));
                (0..count).map(|_| self.value(&item, depth + 1)).collect()
            }
            Some("object") => self.members(schema, depth),
            _ => self.anything(),
        }
    }

    fn members(&mut self, schema: &Value, depth: usize) -> Value {
        let mut members = Map::new();
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            // Wide objects are filled thinly, or resources of real CRDs would be huge.
            let share = if properties.len() > 6 || depth > DEEPEST {
                5
            } else {
                2
            };
            for (name, property) in properties {
                let is_required = required.iter().any(|one| one == name.as_str());
                if (is_required && !self.one_in(12)) || self.one_in(share) {
                    members.insert(name.clone(), self.value(property, depth + 1));
                }
            }
        }
        if let Some(values) = schema
            .get("additionalProperties")
            .filter(|values| values.is_object())
        {
            for name in ["a", "ab", "k"].iter().take(self.below(4)) {
                members.insert((*name).to_owned(), self.value(values, depth + 1));
            }
        }
        if self.one_in(6) {
            members.insert("unknown".to_owned(), self.anything());
        }
        if schema.get("x-kubernetes-embedded-resource") == Some(&json!(true)) && !self.one_in(4) {
            members.insert("apiVersion".to_owned(), json!("v1"));
            members.insert("kind".to_owned(), json!("Pod"));
            members.insert("metadata".to_owned(), json!({"name": "x"}));
        }
        Value::Object(members)
    }

    fn anything(&mut self) -> Value {
        match self.below(7) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(self.below(10)),
            3 => json!(1.5),
            4 => json!(self.pick(&TEXTS)),
            5 => json!([self.pick(&TEXTS)]),
            _ => json!({"a": self.pick(&TEXTS)}),
        }
    }
}

/// A value that is copied.
#[derive(Clone, Copy)]
enum Scalar {
    Number(i64),
    Text(&'static str),
}

fn json_number(number: i64) -> Scalar {
    Scalar::Number(number)
}

impl Scalar {
    fn value(self) -> Value {
        match self {
            Self::Number(number) => json!(number),
            Self::Text(text) => json!(text),
        }
    }
}
