//! One row per key: the JSON that goes in, and what of the body it decides.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use jaco_agent::engine::{ContainerRequest, MountedFiles, Owner};
use jaco_agent::suite;
use jaco_docker::spec;
use jaco_types::{
    ClusterId, DeploymentName, InstanceId, NodeId, Ordinal, ReplicaId, ServiceKey, ServiceName,
    SpecHash, StateIndex,
};
use serde_json::{Value, json};

fn owner() -> Owner {
    Owner { cluster: ClusterId::new(&"ab".repeat(16)).unwrap(), node: NodeId(3) }
}

fn request(container: &str) -> ContainerRequest {
    let service = ServiceKey {
        deployment: DeploymentName::new("shop").unwrap(),
        service: ServiceName::new("web").unwrap(),
    };
    ContainerRequest {
        instance: InstanceId {
            replica: ReplicaId::new(&service, &Ordinal::Index(0)),
            raft_index: StateIndex(57),
        },
        service,
        image: "app:1".into(),
        container: container.into(),
        spec_hash: SpecHash([1; 32]),
        files: MountedFiles::default(),
        gpus: Vec::new(),
        networks: Vec::new(),
    }
}

fn body(container: &str) -> Result<Value, String> {
    let request = request(container);
    let container = spec::read(&request.container).map_err(|error| error.to_string())?;
    let needs = spec::needs(&owner(), &request, &container);
    let neighbours = BTreeMap::from([("db".to_owned(), "c0ffee".to_owned())]);
    let body = spec::body(&owner(), &request, &container, &needs, &neighbours);
    Ok(serde_json::to_value(body.map_err(|error| error.to_string())?).unwrap())
}

/// What `keys` add to the body of a container without any.
fn added(keys: &str) -> Result<String, String> {
    let base = body(r#"{"service":{}}"#).unwrap();
    let full = body(&format!(r#"{{"service":{{{keys}}}}}"#))?;
    let mut lines = Vec::new();
    difference("", &base, &full, &mut lines);
    Ok(lines.join("\n"))
}

fn difference(path: &str, base: &Value, full: &Value, lines: &mut Vec<String>) {
    match (base, full) {
        _ if base == full => {}
        (Value::Object(base), Value::Object(full)) => {
            let keys: std::collections::BTreeSet<_> = base.keys().chain(full.keys()).collect();
            for key in keys {
                let nothing = &Value::Null;
                let (base, full) = (base.get(key).unwrap_or(nothing), full.get(key));
                difference(&format!("{path}.{key}"), base, full.unwrap_or(nothing), lines);
            }
        }
        (_, full) => lines.push(format!("{path} = {full}")),
    }
}

fn check(keys: &str, expected: Expect) {
    match added(keys) {
        Ok(lines) => expected.assert_eq(&lines),
        Err(error) => expected.assert_eq(&format!("error: {error}")),
    }
}

/// Names, labels, the default network with its aliases, and no restart by Docker.
#[test]
fn an_empty_service() {
    let body = body(r#"{"service":{}}"#).unwrap();
    assert_eq!(body["Image"], "app:1");
    assert_eq!(body["HostConfig"]["RestartPolicy"]["Name"], "no");
    assert_eq!(body["HostConfig"]["NetworkMode"], "jaco-abababab-3-shop_default");
    assert_eq!(
        body["NetworkingConfig"]["EndpointsConfig"]["jaco-abababab-3-shop_default"]["Aliases"],
        json!(["web", "web.shop"])
    );
    let labels = json!({
        "jaco.cluster_id": "ab".repeat(16), "jaco.node": "3", "jaco.pre_stop": "[]", "jaco.deployment": "shop",
        "jaco.service": "web", "jaco.replica_id": "shop-web-0", "jaco.replica_index": "0",
        "jaco.raft_index": "57", "jaco.spec_hash": "01".repeat(32),
    });
    assert_eq!(body["Labels"], labels);
}

#[test]
fn process() {
    check(
        r#""command":["a","b"],"entrypoint":["/e"]"#,
        expect![[r#"
        .Cmd = ["a","b"]
        .Entrypoint = ["/e"]"#]],
    );
    check(
        r#""environment":{"B":"2","A":"1","C":null,"D":"true"}"#,
        expect![[r#".Env = ["A=1","B=2","C","D=true"]"#]],
    );
    check(
        r#""working_dir":"/w","user":"1000","init":true,"tty":true,"stdin_open":true"#,
        expect![[r#"
            .HostConfig.Init = true
            .OpenStdin = true
            .Tty = true
            .User = "1000"
            .WorkingDir = "/w""#]],
    );
    check(
        r#""stop_signal":"SIGINT","stop_grace_period":"1m0s""#,
        expect![[r#"
        .StopSignal = "SIGINT"
        .StopTimeout = 60"#]],
    );
    check(r#""stop_grace_period":"500ms""#, expect![".StopTimeout = 1"]);
    check(
        r#""stop_grace_period":"soon""#,
        expect!["error: the canonical container text cannot be read"],
    );
    check(r#""labels":{"a":"b","jaco.node":"9"}"#, expect![[r#".Labels.a = "b""#]]);
    check(
        r#""annotations":{"a":"b"},"hostname":"h","domainname":"d""#,
        expect![[r#"
        .Domainname = "d"
        .HostConfig.Annotations = {"a":"b"}
        .Hostname = "h""#]],
    );
}

#[test]
fn health() {
    check(
        r#""healthcheck":{"test":["CMD","/ok"],"interval":"10s","timeout":"1m30s","retries":3,
           "start_period":"5s","start_interval":"1s"}"#,
        expect![[
            r#".Healthcheck = {"Interval":10000000000,"Retries":3,"StartInterval":1000000000,"StartPeriod":5000000000,"Test":["CMD","/ok"],"Timeout":90000000000}"#
        ]],
    );
    check(r#""healthcheck":{"disable":true}"#, expect![[r#".Healthcheck = {"Test":["NONE"]}"#]]);
}

#[test]
fn ports() {
    check(
        r#""ports":[{"target":80,"published":"8080","protocol":"tcp"},
           {"target":53,"published":"5000-5010","protocol":"udp","host_ip":"127.0.0.1"},
           {"target":90}],"expose":["9000","9001/udp"]"#,
        expect![[r#"
            .ExposedPorts = {"53/udp":{},"80/tcp":{},"90/tcp":{},"9000/tcp":{},"9001/udp":{}}
            .HostConfig.PortBindings = {"53/udp":[{"HostIp":"127.0.0.1","HostPort":"5000-5010"}],"80/tcp":[{"HostPort":"8080"}],"90/tcp":[{"HostPort":""}]}"#]],
    );
}

#[test]
fn networks() {
    check(
        r#""networks":{"front":{},"back":{"aliases":["db"],"priority":5,"gw_priority":7}},
           "container_name":"shop""#,
        expect![[r#"
            .HostConfig.NetworkMode = "jaco-abababab-3-shop_back"
            .NetworkingConfig.EndpointsConfig.jaco-abababab-3-shop_back = {"Aliases":["web","web.shop","shop","db"],"GwPriority":7}
            .NetworkingConfig.EndpointsConfig.jaco-abababab-3-shop_default = null"#]],
    );
    check(
        r#""network_mode":"none""#,
        expect![[r#"
        .HostConfig.NetworkMode = "none"
        .NetworkingConfig = null"#]],
    );
    check(
        r#""network_mode":"service:db","pid":"service:db","ipc":"host""#,
        expect![[r#"
        .HostConfig.IpcMode = "host"
        .HostConfig.NetworkMode = "container:c0ffee"
        .HostConfig.PidMode = "container:c0ffee"
        .NetworkingConfig = null"#]],
    );
    check(
        r#""network_mode":"service:cache""#,
        expect![[r#"error: `network_mode`: no container of service "cache" runs on this node"#]],
    );
    check(
        r#""dns":["1.1.1.1"],"dns_search":["a"],"dns_opt":["b"]"#,
        expect![[r#"
        .HostConfig.Dns = ["1.1.1.1"]
        .HostConfig.DnsOptions = ["b"]
        .HostConfig.DnsSearch = ["a"]"#]],
    );
    check(
        r#""extra_hosts":["host.docker.internal=host-gateway","six=::1"]"#,
        expect![[r#".HostConfig.ExtraHosts = ["host.docker.internal:host-gateway","six:::1"]"#]],
    );
}

/// A network of the manifest is this node's own; an external one is not.
#[test]
fn declared_networks() {
    let text = r#"{"service":{"networks":{"a":{},"b":{}}},
        "networks":{"a":{"name":"shared","internal":true},"b":{"name":"lan","external":true}}}"#;
    let request = request(text);
    let needs = spec::needs(&owner(), &request, &spec::read(text).unwrap());
    let shown: Vec<_> =
        needs.networks.iter().map(|n| (n.name.as_str(), n.reach, n.origin.clone())).collect();
    use spec::{NetworkOrigin, NetworkReach};
    assert_eq!(
        shown,
        [
            ("jaco-abababab-3-shared", NetworkReach::Internal, NetworkOrigin::Node),
            ("lan", NetworkReach::Outside, NetworkOrigin::External)
        ]
    );
}

/// In networks of the cluster a container asks for its addresses, in the order of attachment and whatever the
/// manifest calls them, and for aliases that containers find which were there before; one with the network of something else
/// has none of them. One that joins them while it runs keeps its default route.
#[test]
fn networks_of_the_cluster() {
    let text = r#"{"service":{"networks":{"a":{"aliases":["www"]},"b":{}}},
        "networks":{"a":{"cluster":"deployment","name":"shop_a"},
                    "b":{"cluster":"shared","name":"lan","external":true}}}"#;
    let networks = vec![suite::network_of_cluster(9, 5), suite::network_of_cluster(8, 4)];
    let request = ContainerRequest { networks: networks.clone(), ..request(text) };
    let container = spec::read(text).unwrap();
    let needs = spec::needs(&owner(), &request, &container);
    let shown: Vec<_> = needs.networks.iter().map(|n| (n.name.as_str(), &n.origin)).collect();
    use spec::NetworkOrigin::Cluster;
    let [front, back] = <[_; 2]>::try_from(networks).unwrap();
    assert_eq!(
        shown,
        [("jaco-abababab-jns1", &Cluster(front)), ("jaco-abababab-jns0", &Cluster(back))]
    );
    let body = spec::body(&owner(), &request, &container, &needs, &BTreeMap::new()).unwrap();
    let body = serde_json::to_value(body).unwrap();
    assert_eq!(body["HostConfig"]["NetworkMode"], "jaco-abababab-jns1");
    assert_eq!(
        body["NetworkingConfig"]["EndpointsConfig"],
        json!({"jaco-abababab-jns1": {
            "IPAMConfig": {"IPv4Address": "10.66.9.5"},
            "GwPriority": 2,
            "Aliases": ["web", "web.shop"],
        }})
    );
    let joined = spec::joined(&owner(), &request, &container);
    assert!(joined.networks.iter().all(|one| one.endpoint.gw_priority == Some(-1)));
    assert_eq!(joined.networks.len(), 2);
    let text = r#"{"service":{"network_mode":"none"}}"#;
    let needs = spec::needs(&owner(), &request, &spec::read(text).unwrap());
    assert_eq!(needs.networks, []);
    assert_eq!(spec::joined(&owner(), &request, &spec::read(text).unwrap()).networks, []);
}

/// R-RES-7: limits, as of now and of old, are in what the engine is asked to create.
#[test]
fn limits() {
    check(
        r#""deploy":{"resources":{"limits":{"cpus":0.25,"memory":"67108864","pids":10},
           "reservations":{"memory":"1048576"}}},"cpus":9,"mem_limit":"1073741824""#,
        expect![[r#"
            .HostConfig.Memory = 67108864
            .HostConfig.MemoryReservation = 1048576
            .HostConfig.NanoCpus = 250000000
            .HostConfig.PidsLimit = 10"#]],
    );
    check(
        r#""cpus":1.5,"mem_limit":"1073741824","mem_reservation":"536870912","pids_limit":-1,
           "memswap_limit":"-1","mem_swappiness":"10","cpu_shares":512,"cpuset":"0-1""#,
        expect![[r#"
            .HostConfig.CpuShares = 512
            .HostConfig.CpusetCpus = "0-1"
            .HostConfig.Memory = 1073741824
            .HostConfig.MemoryReservation = 536870912
            .HostConfig.MemorySwap = -1
            .HostConfig.MemorySwappiness = 10
            .HostConfig.NanoCpus = 1500000000
            .HostConfig.PidsLimit = -1"#]],
    );
    check(
        r#""cpu_period":100000,"cpu_quota":50000,"cpu_rt_period":1400,"cpu_rt_runtime":400"#,
        expect![[r#"
            .HostConfig.CpuPeriod = 100000
            .HostConfig.CpuQuota = 50000
            .HostConfig.CpuRealtimePeriod = 1400
            .HostConfig.CpuRealtimeRuntime = 400"#]],
    );
    check(
        r#""shm_size":"67108864","ulimits":{"nofile":{"soft":1,"hard":2},"nproc":3}"#,
        expect![[r#"
            .HostConfig.ShmSize = 67108864
            .HostConfig.Ulimits = [{"Hard":2,"Name":"nofile","Soft":1},{"Hard":3,"Name":"nproc","Soft":3}]"#]],
    );
    check(
        r#""oom_kill_disable":true,"oom_score_adj":100"#,
        expect![[r#"
        .HostConfig.OomKillDisable = true
        .HostConfig.OomScoreAdj = 100"#]],
    );
    check(r#""mem_limit":"much""#, expect!["error: the canonical container text cannot be read"]);
    check(
        r#""blkio_config":{"weight":300,"weight_device":[{"path":"/dev/a","weight":400}],
           "device_read_bps":[{"path":"/dev/a","rate":"12582912"}],
           "device_write_bps":[{"path":"/dev/a","rate":"1024"}],
           "device_read_iops":[{"path":"/dev/a","rate":"20"}],
           "device_write_iops":[{"path":"/dev/a","rate":"30"}]}"#,
        expect![[r#"
            .HostConfig.BlkioDeviceReadBps = [{"Path":"/dev/a","Rate":12582912}]
            .HostConfig.BlkioDeviceReadIOps = [{"Path":"/dev/a","Rate":20}]
            .HostConfig.BlkioDeviceWriteBps = [{"Path":"/dev/a","Rate":1024}]
            .HostConfig.BlkioDeviceWriteIOps = [{"Path":"/dev/a","Rate":30}]
            .HostConfig.BlkioWeight = 300
            .HostConfig.BlkioWeightDevice = [{"Path":"/dev/a","Weight":400}]"#]],
    );
}

#[test]
fn devices() {
    check(
        r#""devices":[{"source":"/dev/dri","target":"/dev/dri","permissions":"rw"},{"source":"/dev/x"}],
           "device_cgroup_rules":["c 1:3 mr"]"#,
        expect![[r#"
            .HostConfig.DeviceCgroupRules = ["c 1:3 mr"]
            .HostConfig.Devices = [{"CgroupPermissions":"rw","PathInContainer":"/dev/dri","PathOnHost":"/dev/dri"},{"CgroupPermissions":"rwm","PathInContainer":"/dev/x","PathOnHost":"/dev/x"}]"#]],
    );
    check(
        r#""gpus":[{"capabilities":["utility"],"driver":"nvidia","device_ids":["1"],"options":{"a":"b"}}]"#,
        expect![[
            r#".HostConfig.DeviceRequests = [{"Capabilities":[["utility","gpu"]],"DeviceIDs":["1"],"Driver":"nvidia","Options":{"a":"b"}}]"#
        ]],
    );
    check(
        r#""gpus":[{"count":-1}]"#,
        expect![[r#".HostConfig.DeviceRequests = [{"Capabilities":[["gpu"]],"Count":-1}]"#]],
    );
    check(
        r#""deploy":{"resources":{"reservations":{"devices":[
           {"capabilities":["gpu"],"driver":"nvidia","device_ids":["0"],"options":{"a":"b"}},
           {"capabilities":["tpu"],"count":2}]}}}"#,
        expect![[
            r#".HostConfig.DeviceRequests = [{"Capabilities":[["gpu"]],"DeviceIDs":["0"],"Driver":"nvidia","Options":{"a":"b"}},{"Capabilities":[["tpu"]],"Count":2}]"#
        ]],
    );
}

#[test]
fn rights() {
    check(
        r#""cap_add":["NET_ADMIN"],"cap_drop":["ALL"],"privileged":true,"read_only":true,
           "security_opt":["no-new-privileges:true","apparmor:unconfined","label=disable"]"#,
        expect![[r#"
            .HostConfig.CapAdd = ["NET_ADMIN"]
            .HostConfig.CapDrop = ["ALL"]
            .HostConfig.Privileged = true
            .HostConfig.ReadonlyRootfs = true
            .HostConfig.SecurityOpt = ["no-new-privileges:true","apparmor=unconfined","label=disable"]"#]],
    );
    check(
        r#""userns_mode":"host","uts":"host","cgroup":"private","cgroup_parent":"p","group_add":["44","video"]"#,
        expect![[r#"
            .HostConfig.CgroupParent = "p"
            .HostConfig.CgroupnsMode = "private"
            .HostConfig.GroupAdd = ["44","video"]
            .HostConfig.UTSMode = "host"
            .HostConfig.UsernsMode = "host""#]],
    );
    check(r#""cgroup":"else""#, expect![[r#"error: `cgroup`: "else" is not `host` or `private`"#]]);
    check(
        r#""runtime":"runsc","storage_opt":{"size":"1G"},"sysctls":{"net.core.somaxconn":"4096"}"#,
        expect![[r#"
            .HostConfig.Runtime = "runsc"
            .HostConfig.StorageOpt = {"size":"1G"}
            .HostConfig.Sysctls = {"net.core.somaxconn":"4096"}"#]],
    );
    check(
        r#""logging":{"driver":"json-file","options":{"max-file":"3","max-size":"10m"}}"#,
        expect![[
            r#".HostConfig.LogConfig = {"Config":{"max-file":"3","max-size":"10m"},"Type":"json-file"}"#
        ]],
    );
}

#[test]
fn mounts() {
    check(
        r#""volumes":[{"type":"bind","source":"/src","target":"/dst","bind":{"create_host_path":true}},
           {"type":"bind","source":"/ro","target":"/ro","read_only":true,"bind":{"selinux":"z","propagation":"rshared"}},
           {"type":"bind","source":"/must/exist","target":"/x","bind":{"create_host_path":false,"propagation":"rslave"}}]"#,
        expect![[r#"
            .HostConfig.Binds = ["/src:/dst:rw","/ro:/ro:ro,z,rshared"]
            .HostConfig.Mounts = [{"BindOptions":{"Propagation":"rslave"},"ReadOnly":false,"Source":"/must/exist","Target":"/x","Type":"bind"}]"#]],
    );
    check(
        r#""volumes":[{"type":"volume","target":"/anonymous"},
           {"type":"volume","source":"data","target":"/data","read_only":true,"volume":{"nocopy":true,"subpath":"db"}}]"#,
        expect![[
            r#".HostConfig.Mounts = [{"ReadOnly":false,"Target":"/anonymous","Type":"volume","VolumeOptions":{"Labels":{"jaco.cluster_id":"abababababababababababababababab","jaco.deployment":"shop","jaco.node":"3"}}},{"ReadOnly":true,"Source":"jaco-abababab-3-shop_data","Target":"/data","Type":"volume","VolumeOptions":{"Labels":{"jaco.cluster_id":"abababababababababababababababab","jaco.deployment":"shop","jaco.node":"3"},"NoCopy":true,"Subpath":"db"}}]"#
        ]],
    );
    check(
        r#""volumes":[{"type":"tmpfs","target":"/t","tmpfs":{"size":"1048576","mode":511}}],"tmpfs":["/run","/tmp:size=1m"]"#,
        expect![[r#"
            .HostConfig.Mounts = [{"ReadOnly":false,"Target":"/t","TmpfsOptions":{"Mode":511,"SizeBytes":1048576},"Type":"tmpfs"}]
            .HostConfig.Tmpfs = {"/run":"","/tmp":"size=1m"}"#]],
    );
    check(
        r#""volumes":[{"type":"bind","source":"/a","target":"/a","bind":{"recursive":"enabled","create_host_path":true}},
           {"type":"bind","source":"/b","target":"/b","bind":{"recursive":"disabled","create_host_path":true}},
           {"type":"bind","source":"/c","target":"/c","read_only":true,"bind":{"recursive":"readonly"}},
           {"type":"bind","source":"/d","target":"/d","read_only":true,"bind":{"recursive":"writable"}}]"#,
        expect![[r#"
            .HostConfig.Binds = ["/a:/a:rw"]
            .HostConfig.Mounts = [{"BindOptions":{"CreateMountpoint":true,"NonRecursive":true},"ReadOnly":false,"Source":"/b","Target":"/b","Type":"bind"},{"BindOptions":{"ReadOnlyForceRecursive":true},"ReadOnly":true,"Source":"/c","Target":"/c","Type":"bind"},{"BindOptions":{"ReadOnlyNonRecursive":true},"ReadOnly":true,"Source":"/d","Target":"/d","Type":"bind"}]"#]],
    );
    check(
        r#""volumes":[{"type":"image","source":"data:1","target":"/data","image":{"subpath":"db"}}]"#,
        expect![[
            r#".HostConfig.Mounts = [{"ImageOptions":{"Subpath":"db"},"ReadOnly":false,"Source":"data:1","Target":"/data","Type":"image"}]"#
        ]],
    );
    check(
        r#""volumes":[{"type":"npipe","source":"p","target":"/p"}]"#,
        expect![[r#"error: `volumes`: the mount at "/p" is not supported by this engine"#]],
    );
}

/// A volume is this node's own, unless the manifest names it or it is external.
#[test]
fn declared_volumes() {
    let text = r#"{"service":{"volumes":[
          {"type":"volume","source":"own","target":"/a"},
          {"type":"volume","source":"named","target":"/b"},
          {"type":"volume","source":"theirs","target":"/c"}]},
        "volumes":{"own":{"name":"shop_own","driver":"local","driver_opts":{"type":"nfs"}},
          "named":{"name":"precious"},"theirs":{"name":"legacy","external":true}}}"#;
    let mounts = body(text).unwrap()["HostConfig"]["Mounts"].clone();
    let sources: Vec<_> = mounts.as_array().unwrap().iter().map(|m| m["Source"].clone()).collect();
    assert_eq!(sources, [json!("jaco-abababab-3-shop_own"), json!("precious"), json!("legacy")]);
    assert_eq!(
        mounts[0]["VolumeOptions"]["DriverConfig"],
        json!({"Name": "local", "Options": {"type": "nfs"}})
    );
    assert_eq!(mounts[0]["VolumeOptions"]["Labels"]["jaco.deployment"], "shop");
    assert_eq!(mounts[2]["VolumeOptions"]["Labels"], Value::Null);
    let needs = spec::needs(&owner(), &request(text), &spec::read(text).unwrap());
    assert_eq!(needs.external_volumes.into_iter().collect::<Vec<_>>(), ["legacy"]);
}

#[test]
fn nonsense_is_refused() {
    assert!(body(r#"{"service":{"ports":"x"}}"#).unwrap_err().contains("cannot be read"));
}

/// R-PLACE-8: the GPUs that the plan gave take the place of a number, and of no other device.
#[test]
fn planned_gpus_are_requested() {
    let keys = r#"{"service":{"gpus":[{"count":2}],"deploy":{"resources":{"reservations":{"devices":[
        {"capabilities":["tpu"],"count":1}]}}}}}"#;
    let request = ContainerRequest { gpus: vec!["GPU-1".into(), "3".into()], ..request(keys) };
    let container = spec::read(&request.container).unwrap();
    let needs = spec::needs(&owner(), &request, &container);
    let body = spec::body(&owner(), &request, &container, &needs, &BTreeMap::new()).unwrap();
    let body = serde_json::to_value(body).unwrap();
    assert_eq!(
        body["HostConfig"]["DeviceRequests"],
        json!([
            { "Capabilities": [["tpu"]], "Count": 1 },
            { "Capabilities": [["gpu"]], "DeviceIDs": ["GPU-1", "3"] },
        ])
    );
}
