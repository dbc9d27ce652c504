"""What each finding means and how to mend it; `trace check --explain` prints these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class FindingCode:
    """One code. An error keeps the row, or the file, from being used; a warning or a note does not."""

    severity: Literal["error", "warning", "note"]
    title: str
    why: str
    remedy: str
    example: str


EXPLANATIONS: dict[str, FindingCode] = {
    # FS1xx: the file
    "FS100": FindingCode(
        "error",
        "The file cannot be read",
        "It does not exist, is a folder, may not be read, or is not the format that its ending says.",
        "Check the path and the ending: .csv and .parquet hold columns, .yaml, .json and .jsonl Kubernetes objects.",
        "pods.csv: no such file; check the path",
    ),
    "FS101": FindingCode(
        "error",
        "The file is not UTF-8 text",
        "Names could not be compared with names from other files if their bytes meant different letters.",
        "Save the file as UTF-8, or convert it: iconv -f latin1 -t utf-8 old.csv > new.csv",
        "pods.csv:17: not UTF-8 text (byte 0xe9)",
    ),
    "FS102": FindingCode(
        "error",
        "The file is empty",
        "There is not even a header, so something went wrong when it was written.",
        "Write or download the file again; trace get openb repairs a broken download.",
        "pods.csv: the file is empty",
    ),
    "FS103": FindingCode(
        "error",
        "There are no rows",
        "A trace without nodes or without pods has nothing to simulate.",
        "Add rows below the header; if all rows were dropped, mend them instead of skipping them.",
        "pods.csv: the file has a header but no rows",
    ),
    "FS104": FindingCode(
        "error",
        "A column is missing",
        "What a pod asks or a node offers cannot be guessed.",
        "Add the column or rename the one that holds it.",
        'pods.csv:1: no column "num_gpu"; did you mean "num_gpus"?',
    ),
    "FS105": FindingCode(
        "error",
        "A column stands twice",
        "Nothing says which of the two counts.",
        "Remove or rename one of them.",
        'pods.csv:1: the column "cpu_milli" stands twice',
    ),
    "FS106": FindingCode(
        "error",
        "A row has too few or too many fields",
        "Its values would be read under the wrong columns. Often a comma inside a name, or a file cut short.",
        'Quote fields that hold commas ("a,b"), or write the file again.',
        "pods.csv:12: the row has 10 fields, the header has 11",
    ),
    "FS107": FindingCode(
        "warning",
        "A column is not known",
        "It is ignored. That is right for notes of your own and wrong for a misspelt optional column.",
        "Correct the name if it should count; an extended resource is called resource:NAME, a node label label:KEY.",
        'pods.csv:1: the column "prio" is not known and is ignored; did you mean "priority"?',
    ),
    "FS108": FindingCode(
        "error",
        "There are too many columns",
        "A table of nodes or pods has a few dozen columns; this header has thousands.",
        "Check that rows and columns are not swapped, and that the file is a trace.",
        "pods.csv:1: the header has 60011 columns; no trace has more than 2000",
    ),
    # FS2xx: a row
    "FS201": FindingCode(
        "error",
        "The value is not a number",
        "The column holds amounts or times. NaN and infinity count as no number.",
        "Write a plain number without unit; leave optional cells empty when nothing is known.",
        'pods.csv:9: cpu_milli is "4 cores"; CPU is a whole number of milli-cores, 0 or more',
    ),
    "FS202": FindingCode(
        "error",
        "The value is too small",
        "Amounts and times are 0 or more, a gang has at least one pod.",
        "Correct the value; a trace whose times start before 0 has to be shifted.",
        'pods.csv:1042: num_gpu is "-1"; a pod asks for 0 or more GPUs',
    ),
    "FS203": FindingCode(
        "error",
        "The value is not a whole number",
        "CPU, memory and GPUs are counted in milli-cores, MiB, devices and milli-GPU, so that sums stay exact.",
        "Convert to the column's unit: 0.5 cores are 500 milli-cores, half a GPU is num_gpu 1 with gpu_milli 500.",
        'pods.csv:8: num_gpu is "0.5"; a pod asks for 0 or more GPUs',
    ),
    "FS204": FindingCode(
        "error",
        "The value is too large",
        "Amounts end at 10^12, the GPUs of a node at 1024: beyond, a wrong unit is likelier than a large machine.",
        "Check the unit: memory is in MiB, not bytes; CPU in milli-cores, not nanoseconds.",
        'nodes.csv:3: memory_mib is "412316860416000"; memory is a whole number of MiB, 0 or more',
    ),
    "FS205": FindingCode(
        "error",
        "A required cell is empty",
        "Names tell pods and nodes apart, and what a pod asks cannot be guessed.",
        "Fill in the cell; write 0 where nothing is asked.",
        "pods.csv:5: cpu_milli is empty; CPU is a whole number of milli-cores, 0 or more",
    ),
    "FS206": FindingCode(
        "error",
        "A name stands twice",
        "Results, placements and explanations are told apart by name.",
        "Rename one of the rows, or remove it if the file was joined from overlapping parts.",
        'pods.csv:30: name is "train-7", as in line 12; names must differ',
    ),
    "FS207": FindingCode(
        "error",
        "A GPU share is larger than a GPU",
        "gpu_milli is per device and 1000 is the whole device.",
        "Ask for several whole devices with num_gpu, each with gpu_milli 1000.",
        'pods.csv:4: gpu_milli is "2000"; one GPU is 1000 milli',
    ),
    "FS208": FindingCode(
        "error",
        "A GPU pod asks for nothing of its GPU",
        "With num_gpu above 0, gpu_milli 0 would take a device and use none of it.",
        "Write gpu_milli 1000 for whole devices, or num_gpu 0 for a pod without GPU.",
        "pods.csv:4: gpu_milli is 0 but num_gpu is 1",
    ),
    "FS209": FindingCode(
        "error",
        "A pod asks for shares of several GPUs",
        "A share is a part of one device; pods with several devices take whole ones.",
        "Write gpu_milli 1000, or num_gpu 1.",
        "pods.csv:4: gpu_milli is 500 but num_gpu is 2; several GPUs are whole ones",
    ),
    "FS210": FindingCode(
        "error",
        "A pod ends before it begins",
        "Its running time would be negative.",
        "Correct the times; leave deletion_time empty for pods that were still running when the trace ended.",
        "pods.csv:6: deletion_time is 40, before scheduled_time 50",
    ),
    "FS211": FindingCode(
        "error",
        "No node has any of the models that a pod names",
        "The pod can never be placed, so every result would count it as failed for a reason outside the policy.",
        "Correct the model's spelling, add the nodes, or drop such pods with --skip-bad-rows.",
        'pods.csv:6: gpu_spec is "H100"; no node has such a GPU, so the pod can never be placed (the nodes have T4)',
    ),
    "FS212": FindingCode(
        "warning",
        "A pod without GPUs has a GPU share",
        "num_gpu is 0, so gpu_milli is read as 0.",
        "Write num_gpu 1 if the pod uses a part of a GPU.",
        "pods.csv:6: gpu_milli is 500 but num_gpu is 0; read as a pod without GPU",
    ),
    "FS213": FindingCode(
        "error",
        "A gang's size does not hold together",
        "The rows of a gang state different gang_min, or gang_min stands at a pod of no gang.",
        "Write one gang_min in all rows of a gang, or leave it empty: then all members are waited for.",
        'pods.csv:6: gang_min is 3 but line 2 says 4 for gang "ring"',
    ),
    "FS214": FindingCode(
        "error",
        "A CPU limit is below the request",
        "cpu_limit_milli is the most that the pod may use, so it cannot request more.",
        "Raise the limit to cpu_milli or above, or leave it empty for no limit.",
        "pods.csv:6: cpu_limit_milli is 500, below the 1000 of cpu_milli; a limit is no less",
    ),
    "FS215": FindingCode(
        "error",
        "A pod trains a model that is not known",
        "Nothing says how long it takes and what it reports.",
        "Name one of the models that come with Foresail, or leave the cell empty.",
        'pods.csv:6: training is "cnn", which is no model; there are birnn, drnn, lstm, rnn, lenet, vae, identity-rnn',
    ),
    # FS3xx: the trace as a whole
    "FS301": FindingCode(
        "warning",
        "A pod is larger than any node",
        "No policy can place it, not even on an empty cluster; it counts as failed or waits for ever.",
        "Check the units of the pod and of the nodes, or leave the pod out.",
        'pods.csv:6: pod "big" asks 200000 milli-CPU, 1024 MiB; no empty node has that much (1 pod)',
    ),
    "FS302": FindingCode(
        "warning",
        "A list of models names one that no node has",
        "The pod can still go to the other models of its list.",
        "Check the spelling; nothing needs to be done if the cluster simply lacks that model.",
        'pods.csv:6: "A10|H100" names H100, which no node has (12 pods)',
    ),
    "FS303": FindingCode(
        "note",
        "A list names a model twice",
        "Placement does not change, but such pods count as a request of their own in the list of typical pods.",
        "Nothing needs to be done; the public traces hold such lists.",
        'pods.csv:6: "V100M16|V100M32|V100M32" names V100M32 more than once (22 pods)',
    ),
    "FS304": FindingCode(
        "warning",
        "Pods run for no time at all",
        "They leave at the instant they start and hold no resources that anyone could measure.",
        "Check the resolution of the times; leave the duration empty if it is not known.",
        'pods.csv:6: pod "x" runs for 0 s (40 pods)',
    ),
    "FS305": FindingCode(
        "note",
        "Rows are not in order of arrival",
        "With --protocol clock pods arrive by creation_time, whatever the order of the rows.",
        "Nothing needs to be done; sort by creation_time if you want to read the file in order.",
        'pods.csv:6: pod "x" arrives at 5 s, before the pod above it (3 pods)',
    ),
    "FS306": FindingCode(
        "warning",
        "A gang is larger than the cluster",
        "Its members start together or not at all, and all nodes together have too little.",
        "Lower gang_min, or add nodes.",
        'pods.csv:6: gang "ring" needs 64000 milli-GPU at once; the whole cluster has 32000',
    ),
    "FS307": FindingCode(
        "warning",
        "A gang waits for more pods than it has",
        "It never starts and is given up when its time is over.",
        "Lower gang_min to the number of members, or add the missing rows.",
        'pods.csv:6: gang "ring" waits for 8 pods but has 4, so it never starts',
    ),
    "FS308": FindingCode(
        "warning",
        "A node without GPUs has a GPU model",
        "The model is kept but no pod can use it.",
        "Write the number of devices, or leave the model empty.",
        'nodes.csv:6: node "n5" has 0 GPUs but the model "T4"',
    ),
    "FS309": FindingCode(
        "warning",
        "A node with GPUs has no model",
        "Pods that name a model cannot use its GPUs; pods that name none can.",
        "Fill in the model.",
        'nodes.csv:6: node "n5" has 8 GPUs of no model; pods that name a model cannot use them',
    ),
}
