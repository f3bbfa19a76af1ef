//! Class and size of volumes in jaco.yaml. R-IN-1.

use expect_test::expect;

use crate::util::{problems_of, resolve_text};

const COMPOSE: &str = "name: shop
services:
  db: {image: d, volumes: ['data:/data', 'logs:/logs', '/tmp']}
  web: {image: w, volumes_from: [db], volumes: ['cache:/cache']}
volumes:
  data: {}
  logs: {name: all-logs}
  cache: {}
  tape: {external: true}
  far: {driver: nfs}
  near: {driver_opts: {type: tmpfs}}
";

fn resolved(volumes: &str) -> Result<jaco_compose::Resolved, jaco_compose::Problems> {
    resolve_text(COMPOSE, Some(&format!("deployment: shop\nvolumes:\n{volumes}")))
}

/// R-IN-1: the class reaches the container and the planner, the size only the planner: another size recreates nothing.
#[test]
fn a_volume_has_a_class_and_a_size() {
    let shown = |service: &str, text: &str| {
        let resolved = resolved(text).unwrap();
        let volumes = resolved.services[service].facts.volumes.iter();
        volumes.map(|one| format!("{} {} {}", one.volume, one.class, one.size)).collect::<Vec<_>>()
    };
    let text = "  data: {class: ssd, size: 10G}\n  logs: {class: hdd}\n";
    assert_eq!(shown("db", text), ["all-logs hdd 0 B", "shop_data ssd 10 GiB"]);
    assert_eq!(shown("web", text), ["all-logs hdd 0 B", "shop_data ssd 10 GiB"]);
    assert!(shown("web", "  tape: {class: ssd}\n".replace("tape", "cache").as_str()).len() == 1);
    let container = |text: &str| resolved(text).unwrap().services["db"].container.clone();
    let canonical = container(text).canonical;
    expect![[r#""volumes":{"data":{"class":"ssd","name":"shop_data"},"logs":{"class":"hdd","name":"all-logs"}}}"#]]
        .assert_eq(&canonical[canonical.find(r#""volumes":{"data""#).unwrap()..]);
    let larger = text.replace("10G", "20G");
    assert_eq!(container(&larger).hash, container(text).hash);
    assert_ne!(container(&text.replace("ssd", "nvme")).hash, container(text).hash);
    let none = resolve_text(COMPOSE, None).unwrap();
    assert_eq!(none.services["db"].facts.volumes, []);
    assert!(!none.services["db"].container.canonical.contains("class"));
}

/// R-IN-1: mistakes are told with their position and what to do.
#[test]
fn mistakes_have_positions() {
    let problems = |text: &str| problems_of(&resolved(text).unwrap_err());
    expect![[r#"
        3:3 error unknown_volume: the compose file has no volume `dta`
          help did you mean `data`?
        4:19 warning honoured_differently: `services.web.volumes_from` works differently on a cluster: The mounts of the named service are added, and replicas are placed on nodes that run one of its replicas. `container:` is refused."#]].assert_eq(&problems("  dta: {class: ssd}\n"));
    expect![[r#"
        3:17 error conflict: volume `tape` cannot have a class: it is external
          help remove one of them: a class says where on a node the volume is
        4:19 warning honoured_differently: `services.web.volumes_from` works differently on a cluster: The mounts of the named service are added, and replicas are placed on nodes that run one of its replicas. `container:` is refused."#]].assert_eq(&problems("  tape: {class: ssd}\n"));
    expect![[r#"
        3:16 error conflict: volume `far` cannot have a class: it has a driver of its own
          help remove one of them: a class says where on a node the volume is
        4:19 warning honoured_differently: `services.web.volumes_from` works differently on a cluster: The mounts of the named service are added, and replicas are placed on nodes that run one of its replicas. `container:` is refused."#]].assert_eq(&problems("  far: {class: ssd}\n"));
    expect![[r#"
        3:17 error conflict: volume `near` cannot have a class: it has `driver_opts`
          help remove one of them: a class says where on a node the volume is
        4:19 warning honoured_differently: `services.web.volumes_from` works differently on a cluster: The mounts of the named service are added, and replicas are placed on nodes that run one of its replicas. `container:` is refused."#]].assert_eq(&problems("  near: {class: ssd}\n"));
    let overlay = |text: &str| {
        let text = format!("deployment: shop\nvolumes:\n{text}");
        let parsed = jaco_compose::JacoYaml::parse("jaco.yaml", text.as_bytes());
        problems_of(&parsed.unwrap_err())
    };
    expect![[r#"
        3:17 error invalid_name: `SSD` is no volume class
          help use 1 to 63 of a-z, 0-9, '-' and '_', starting with a letter or digit"#]]
    .assert_eq(&overlay("  data: {class: SSD}\n"));
    expect!["3:9 error missing_key: `volumes.data` has no `class`"]
        .assert_eq(&overlay("  data: {size: 10G}\n"));
    expect![[r#"
        3:28 error invalid_value: the `size` of a volume cannot be zero
          expected an amount such as `10G`, or no `size`"#]]
    .assert_eq(&overlay("  data: {class: ssd, size: 0}\n"));
    expect![[r#"
        3:28 error invalid_value: `volumes.data.size` cannot be `ten`
          expected a size in bytes such as `512m` or `2g`"#]]
    .assert_eq(&overlay("  data: {class: ssd, size: ten}\n"));
    expect![[r#"
        3:22 error unknown_key: `volumes.data` has no key `sise`
          help did you mean `size`?"#]]
    .assert_eq(&overlay("  data: {class: ssd, sise: 1G}\n"));
}
