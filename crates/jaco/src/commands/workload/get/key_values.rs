//! Key-value pairs of services: their bounds and reservations, and their tables in `jaco.services.toml`
//! (R-RES-5). Computed from the stored deployment by the rules of admission. Pure.

use jaco_compose::{Environment, Images, JacoYaml, Options, environment, from_model, resolve};
use jaco_proto::v1::GetDeploymentResponse;

use serde_json::{Value, json};

use crate::error::CliError;
use crate::format::table::Table;
use crate::output::{Detail, Frame};
use crate::view::json::without_null;

/// One value of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyValue {
    /// `deployment/service`.
    pub(crate) service: String,
    /// `memory`, `min_memory_mb`, … or a key of the service's table.
    pub(crate) key: String,
    /// The value. Bounds and reservations are whole megabytes and megahertz (1000 MHz are a core); zero is
    /// no bound or reservation.
    pub(crate) value: String,
    /// The variable that `${…}` reads it by, if the key is in the table.
    pub(crate) variable: Option<String>,
    /// Whether it is more than the default of a bound or reservation.
    is_set: bool,
}

/// The values of a deployment, by service and key.
pub(crate) fn of_deployment(stored: &GetDeploymentResponse) -> Result<Vec<KeyValue>, CliError> {
    let refuse = |problems| CliError::Manifest { problems };
    let project = from_model(stored.compose_json.as_bytes()).map_err(refuse)?;
    let overlay = match stored.overlay_yaml.as_str() {
        "" => None,
        text => Some(JacoYaml::parse("jaco.yaml", text.as_bytes()).map_err(refuse)?),
    };
    let file = environment::file_name(None);
    let tables = Environment::parse(&file, stored.environment_toml.as_bytes()).map_err(refuse)?;
    let options =
        Options { images: Images::AllowLocal, overrides: tables.overrides(), ..Options::default() };
    let resolved = resolve(&project, overlay.as_ref(), &options).map_err(refuse)?;
    let mut rows = Vec::new();
    for (name, service) in &resolved.services {
        let (bounds, reserved) = (service.facts.bounds, service.facts.reservation);
        let megabytes = |bytes: u64| (bytes >> 20).to_string();
        let derived = [
            ("cpu", reserved.cpu.0.to_string()),
            ("max_cpu_mhz", bounds.cpu_max.0.to_string()),
            ("max_memory_mb", megabytes(bounds.memory_max.0)),
            ("memory", megabytes(reserved.memory.0)),
            ("min_cpu_mhz", bounds.cpu_min.0.to_string()),
            ("min_memory_mb", megabytes(bounds.memory_min.0)),
        ];
        let in_table = tables.values().find(|(service, _)| service == name);
        let in_table = in_table.into_iter().flat_map(|(_, values)| values);
        let others = in_table.filter(|(key, _)| derived.iter().all(|(known, _)| known != key));
        let derived_keys = derived.each_ref().map(|(key, _)| *key);
        let derived = derived.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let all = derived.chain(others.map(|(key, value)| (key.clone(), value.clone())));
        let has_variable =
            |key: &str| tables.values().any(|(of, values)| of == name && values.contains_key(key));
        rows.extend(all.map(|(key, value)| KeyValue {
            service: format!("{}/{name}", stored.name),
            variable: has_variable(&key).then(|| environment::variable(name, &key)),
            is_set: value != "0" || derived_keys.iter().all(|known| *known != key),
            key,
            value,
        }));
    }
    rows.sort_by(|a, b| (&a.service, &a.key).cmp(&(&b.service, &b.key)));
    Ok(rows)
}

/// A value as JSON.
pub(crate) fn json(row: &KeyValue) -> Value {
    without_null(json!({
        "service": row.service,
        "key": row.key,
        "value": row.value,
        "variable": row.variable,
    }))
}

/// Values as a table. Unset bounds and reservations are left out, except with `-o wide`.
pub(crate) fn table(rows: &[KeyValue], frame: &Frame) -> String {
    let mut head = vec!["SERVICE", "KEY", "VALUE"];
    if frame.detail == Detail::Wide {
        head.push("VARIABLE");
    }
    let mut table = Table::new(&head);
    let is_shown = |row: &&KeyValue| frame.detail == Detail::Wide || row.is_set;
    for row in rows.iter().filter(is_shown) {
        let mut cells = vec![row.service.clone(), row.key.clone(), row.value.clone()];
        if frame.detail == Detail::Wide {
            cells.push(row.variable.clone().unwrap_or_default());
        }
        table.row(cells);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-RES-5: bounds, reservations, and the other keys of a service's table, each with the variable that
    /// interpolation reads; bounds that the manifest does not set come from the table.
    #[test]
    fn values_come_from_manifest_and_table() {
        let stored = GetDeploymentResponse {
            name: "shop".to_owned(),
            compose_json: r#"{"name":"shop","services":{"api":{"image":"a"},"db":{"image":"d"}}}"#
                .to_owned(),
            overlay_yaml: "deployment: shop\nservices:\n  - name: api\n    resources:\n      \
                memory: {min: 128 mb, max: 512 mb}\n"
                .to_owned(),
            environment_toml:
                "[api]\nmemory = '192 mb'\ngreeting = 'hello'\n[db]\ncpu = '1500 mhz'\n".to_owned(),
            ..GetDeploymentResponse::default()
        };
        let shown: Vec<String> = of_deployment(&stored)
            .unwrap()
            .into_iter()
            .map(|row| {
                let variable = row.variable.map(|name| format!(" ${{{name}}}")).unwrap_or_default();
                format!("{} {}={}{variable}", row.service, row.key, row.value)
            })
            .collect();
        expect_test::expect![[r#"
            shop/api cpu=0
            shop/api greeting=hello ${JACO_API_GREETING}
            shop/api max_cpu_mhz=0
            shop/api max_memory_mb=512
            shop/api memory=192 ${JACO_API_MEMORY}
            shop/api min_cpu_mhz=0
            shop/api min_memory_mb=128
            shop/db cpu=1500 ${JACO_DB_CPU}
            shop/db max_cpu_mhz=1500
            shop/db max_memory_mb=0
            shop/db memory=0
            shop/db min_cpu_mhz=1500
            shop/db min_memory_mb=0"#]]
        .assert_eq(&shown.join("\n"));
    }
}
