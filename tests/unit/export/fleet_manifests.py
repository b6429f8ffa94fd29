#!/usr/bin/env python3
"""Manifests of fleets against the schemas of their kinds (known/), and the references between objects.

usage: fleet_manifests.py REHEARSE FLEET..."""

import json
import os
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError as missing:
    print(f"skipped: {missing}: apt-get install python3-jsonschema")
    sys.exit(77)

KNOWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "known")
problems = []


def schema_of(kind):
    with open(os.path.join(KNOWN, kind.lower() + ".json")) as f:
        return json.load(f)


def items(folder, name):
    with open(os.path.join(folder, name)) as f:
        listed = json.load(f)
    assert listed["kind"] == "List" and listed["apiVersion"] == "v1"
    return listed["items"]


def named(objects, kind):
    return {o["metadata"]["name"]: o for o in objects if o["kind"] == kind}


def check(ok, what):
    if not ok:
        problems.append(what)


def check_kueue(queues, jobs):
    cohorts, clusters, local = (named(queues, k) for k in ("Cohort", "ClusterQueue", "LocalQueue"))
    flavors, classes = named(queues, "ResourceFlavor"), named(queues, "WorkloadPriorityClass")
    for name, o in list(cohorts.items()) + list(clusters.items()):
        parent = o["spec"].get("cohortName", o["spec"].get("parentName"))
        check(parent is None or parent in cohorts, f"{name}: its cohort {parent} is not there")
        for group in o["spec"].get("resourceGroups", []):
            for flavor in group["flavors"]:
                check(flavor["name"] in flavors, f"{name}: flavor {flavor['name']} is not there")
                check([r["name"] for r in flavor["resources"]] == group["coveredResources"], f"{name}: resources of a group")
                # A queue without a cohort may state neither (a rule of the CRD).
                limits = any(k in r for r in flavor["resources"] for k in ("borrowingLimit", "lendingLimit"))
                check(parent is not None or not limits, f"{name}: limits without a cohort")
    for name, o in local.items():
        check(o["spec"]["clusterQueue"] in clusters, f"{name}: its ClusterQueue is not there")
    for o in jobs:
        labels = o["metadata"].get("labels", {})
        queue, priority = labels.get("kueue.x-k8s.io/queue-name"), labels.get("kueue.x-k8s.io/priority-class")
        check(queue is None or queue in local, f"{o['metadata']['name']}: queue {queue} is not there")
        check(priority is None or priority in classes, f"{o['metadata']['name']}: priority {priority} is not there")
        check(o["spec"]["suspend"] is True, f"{o['metadata']['name']}: Kueue admits what is suspended")


def check_kai(queues, jobs):
    known = named(queues, "Queue")
    for name, o in known.items():
        check(o["spec"].get("parentQueue") in [None, *known], f"{name}: its parent is not there")
    for o in jobs:
        pod = o["spec"]["template"]
        queue = pod.get("metadata", {}).get("labels", {}).get("kai.scheduler/queue")
        check(queue is None or queue in known, f"{o['metadata']['name']}: queue {queue} is not there")
        check(pod["spec"]["schedulerName"] == "kai-scheduler", f"{o['metadata']['name']}: scheduler")


def main():
    program, fleets = sys.argv[1], sys.argv[2:]
    checked = 0
    for fleet in fleets:
        for target, references in (("kueue", check_kueue), ("kai", check_kai)):
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([program, "export", fleet, "--to", target, "-o", folder], check=True, stdout=subprocess.DEVNULL)
                queues, jobs = items(folder, "queues.json"), items(folder, "jobs.json")
            for o in queues:
                for e in jsonschema.Draft7Validator(schema_of(o["kind"])).iter_errors(o):
                    problems.append(f"{fleet} {target} {o['kind']} {o['metadata']['name']}: {e.json_path}: {e.message}")
                checked += 1
            references(queues, jobs)
    for p in problems:
        print(p)
    print(f"{checked} objects of {len(fleets)} fleets")
    return 1 if problems or checked == 0 else 0


sys.exit(main())
