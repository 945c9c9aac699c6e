//! Reads fields of a configuration. Every error names the field by its path, and its value. Must
//! never read a value of `openstackConf`: errors would show passwords.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use serde_json::Value;

use super::{invalid, shown};
use crate::cni::{CniError, ContainerId, Route, RouteDetail};

/// The form of an address, for errors.
pub(crate) const ADDRESS: &str = "an address such as 10.0.0.7";

/// The form of an id of Neutron, for errors.
pub(crate) const ID: &str = "an OpenStack id such as 782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

/// The form of a range, for errors.
pub(crate) const CIDR: &str = "a CIDR such as 10.0.0.0/8";

/// A field with its path, such as `ipam.routes[0].dst`.
#[derive(Clone, Debug)]
pub(crate) struct Field<'v> {
    path: String,
    value: &'v Value,
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl<'v> Field<'v> {
    /// `path` is empty for the whole configuration.
    pub(crate) fn new(path: &str, value: &'v Value) -> Field<'v> {
        let path = path.to_owned();
        Field { path, value }
    }

    /// A field of this object; `None` if it is absent.
    pub(crate) fn get(&self, key: &str) -> Option<Field<'v>> {
        match &self.value[key] {
            Value::Null => None,
            value => Some(Field::new(&self.path_of(key), value)),
        }
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.is_empty() {
            true => shown(key),
            false => format!("{}.{}", self.path, shown(key)),
        }
    }

    /// # Errors
    /// Fails if this is no object, or has another field.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), CniError> {
        let fields = self
            .value
            .as_object()
            .ok_or_else(|| self.wrong("an object"))?;
        match fields.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(invalid(&format!(
                "unknown field `{}`; expected {}",
                self.path_of(key),
                known.join(", ")
            ))),
        }
    }

    /// # Errors
    /// Fails if this is no list.
    pub(crate) fn items(&self) -> Result<Vec<Field<'v>>, CniError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let item = |(index, value)| Field::new(&format!("{}[{index}]", self.path), value);
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// # Errors
    /// Fails if this is no text.
    pub(crate) fn text(&self) -> Result<&'v str, CniError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    /// # Errors
    /// Fails if this is no text, or cannot be parsed.
    pub(crate) fn parsed<T: FromStr>(&self, expected: &str) -> Result<T, CniError> {
        let parsed = self.value.as_str().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| self.wrong(expected))
    }

    /// # Errors
    /// Fails if this is no whole number that fits.
    pub(crate) fn number<T: TryFrom<u64>>(&self, expected: &str) -> Result<T, CniError> {
        let number = self.value.as_u64();
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.wrong(expected))
    }

    /// The texts of a list, parsed. An absent list is empty.
    ///
    /// # Errors
    /// Fails with the first item that cannot be parsed.
    pub(crate) fn list<T: FromStr>(&self, key: &str, expected: &str) -> Result<Vec<T>, CniError> {
        let Some(list) = self.get(key) else {
            return Ok(Vec::new());
        };
        let items = list.items()?;
        items.iter().map(|item| item.parsed(expected)).collect()
    }

    /// A text; `None` if it is absent.
    ///
    /// # Errors
    /// Fails if it is no text.
    pub(crate) fn text_of(&self, key: &str) -> Result<Option<String>, CniError> {
        let field = self.get(key);
        field
            .map(|field| field.text().map(str::to_owned))
            .transpose()
    }

    /// A name that is joined with others by `/`. CNI's rule for network names.
    ///
    /// # Errors
    /// Fails if it is invalid.
    pub(crate) fn name_of(&self, key: &str) -> Result<Option<String>, CniError> {
        const NAME: &str =
            "letters, digits, `_`, `.` and `-`, a letter or a digit first, at most 200 of them";
        let Some(field) = self.get(key) else {
            return Ok(None);
        };
        field.parsed::<ContainerId>(NAME)?;
        field.text().map(|text| Some(text.to_owned()))
    }

    /// A path.
    ///
    /// # Errors
    /// Fails if it is relative.
    pub(crate) fn path_at(&self, key: &str) -> Result<Option<PathBuf>, CniError> {
        let Some(field) = self.get(key) else {
            return Ok(None);
        };
        let path = PathBuf::from(field.text()?);
        match path.is_absolute() {
            true => Ok(Some(path)),
            false => Err(field.wrong("an absolute path")),
        }
    }

    /// A text without an error, which would show it; `None` if it is empty or no text.
    pub(crate) fn text_of_secret(&self) -> Option<String> {
        let text = self.value.as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned)
    }

    /// The error for this value.
    pub(crate) fn wrong(&self, expected: &str) -> CniError {
        let value = match self.value {
            Value::Null => "null".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            Value::String(text) => format!("`{}`", shown(text)),
            scalar => format!("`{}`", shown(&scalar.to_string())),
        };
        invalid(&format!("`{self}` is {value}; expected {expected}"))
    }

    /// A route.
    ///
    /// # Errors
    /// Fails if the value is not a route.
    pub(crate) fn route(&self) -> Result<Route, CniError> {
        self.only(&["dst", "gw", "mtu", "advmss", "priority", "table", "scope"])?;
        let destination: Option<IpNet> = self.parsed_of("dst", CIDR)?;
        let gateway: Option<IpAddr> = self.parsed_of("gw", ADDRESS)?;
        let destination =
            destination.ok_or_else(|| invalid(&format!("`{}` is missing", self.path_of("dst"))))?;
        let detail = RouteDetail {
            mtu: self.number_of("mtu", "a number of bytes")?,
            advmss: self.number_of("advmss", "a number of bytes")?,
            priority: self.number_of("priority", "a number")?,
            table: self.number_of("table", "a number")?,
            scope: self.number_of::<u8>("scope", "a number up to 255")?,
        };
        Ok(Route {
            destination,
            gateway,
            detail,
        })
    }

    /// # Errors
    /// Fails if there is a text that cannot be parsed.
    pub(crate) fn parsed_of<T: FromStr>(
        &self,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>, CniError> {
        let field = self.get(key);
        field.map(|field| field.parsed(expected)).transpose()
    }

    pub(super) fn number_of<T: TryFrom<u64>>(
        &self,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>, CniError> {
        let field = self.get(key);
        field.map(|field| field.number(expected)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::cni::Arguments;
    use crate::settings::Settings;

    const NETWORK: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

    /// The error of an ADD with this field in `ipam`.
    fn error(key: &str, value: serde_json::Value) -> String {
        let mut ipam = json!({"type": "cni-ipam-neutron", "cloud": "c", "networks": [NETWORK]});
        ipam[key] = value;
        let input = json!({"cniVersion": "1.0.0", "name": "net", "ipam": ipam}).to_string();
        let error = Settings::read(input.as_bytes()).and_then(|settings| {
            settings.daemon_config()?;
            settings.request(&Arguments::default())
        });
        error.unwrap_err().message
    }

    #[test]
    fn errors_name_field_and_value() {
        for (key, value, expected) in [
            (
                "networks",
                json!("x"),
                "`ipam.networks` is `x`; expected a list",
            ),
            (
                "networks",
                json!(["private"]),
                "`ipam.networks[0]` is `private`; expected an OpenStack id",
            ),
            (
                "neutronConf",
                json!({"networks": [NETWORK]}),
                "`ipam.networks` and `ipam.neutronConf.networks` exclude each other",
            ),
            (
                "subnets",
                json!([NETWORK, 7]),
                "`ipam.subnets[1]` is `7`; expected an OpenStack id",
            ),
            (
                "gateways",
                json!(["10.0.0.300"]),
                "`ipam.gateways[0]` is `10.0.0.300`; expected an address",
            ),
            (
                "routes",
                json!([{"dst": "0.0.0.0"}]),
                "`ipam.routes[0].dst` is `0.0.0.0`; expected a CIDR",
            ),
            (
                "routes",
                json!([{"gw": "10.0.0.1"}]),
                "`ipam.routes[0].dst` is missing",
            ),
            (
                "routes",
                json!([{"dst": "10.0.0.0/8", "via": "x"}]),
                "unknown field `ipam.routes[0].via`",
            ),
            ("mtu", json!(12), "`ipam.mtu` is `12`; expected"),
            (
                "deadlineSeconds",
                json!(5),
                "`ipam.deadlineSeconds` is `5`; expected a whole number from 10 to 110",
            ),
            (
                "stateDirectory",
                json!("here"),
                "`ipam.stateDirectory` is `here`; expected an absolute path",
            ),
            (
                "node",
                json!("a/b"),
                "`ipam.node` is `a/b`; expected letters",
            ),
            (
                "warmPool",
                json!({"free": -1}),
                "`ipam.warmPool.free` is `-1`; expected",
            ),
            (
                "warmPool",
                json!({"free": 9, "most": 4}),
                "`ipam.warmPool` has `free` 9 and `most` 4",
            ),
            (
                "allowedAddressPairs",
                json!({"port": "eth0"}),
                "`ipam.allowedAddressPairs.port` is `eth0`; expected an OpenStack id",
            ),
            ("range", json!("10.0.0.0/24"), "unknown field `ipam.range`"),
            (
                "type",
                json!("whereabouts"),
                "`ipam.type` is `whereabouts`, which is another plugin",
            ),
        ] {
            let message = error(key, value);
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn a_section_with_its_type_alone_is_incomplete() {
        for ipam in [
            json!({"type": "cni-ipam-neutron"}),
            json!({}),
            json!({"type": "x", "name": "y"}),
        ] {
            let input = json!({"cniVersion": "0.3.1", "name": "net", "ipam": ipam}).to_string();
            let settings = Settings::read(input.as_bytes()).unwrap();
            let error = crate::plugin::cloud(&settings.source).unwrap_err();
            assert_eq!(error.code, crate::cni::ErrorCode::InvalidConfiguration);
            assert!(
                error.message.contains("incomplete") && error.message.contains("networks"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn the_request_of_a_pod_is_not_a_fault_of_the_node() {
        let input = json!({"cniVersion": "1.0.0", "name": "net", "runtimeConfig": {"ips": ["10.0.0.300"]},
            "ipam": {"cloud": "c", "networks": [NETWORK]}});
        let settings = Settings::read(input.to_string().as_bytes()).unwrap();
        let error = settings.request(&Arguments::default()).unwrap_err();
        assert!(
            error
                .message
                .starts_with("`runtimeConfig.ips[0]` is `10.0.0.300`"),
            "{error:?}"
        );
        assert!(
            error.details.contains("Pod") && !error.details.contains("net.d"),
            "{error:?}"
        );
    }
}
