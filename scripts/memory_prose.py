"""What the results page of GPU memory says beside its figures. Pure data."""

from __future__ import annotations

INTRO = """# GPU memory: what the methods reach

Made by `scripts/results_memory`; every number on this page is computed by it. All cases with every method's answer:
[memory_cases.csv](memory_cases.csv).

"""


LOOKED_AT = """
### What no one had seen

New families are those of the twelfth collection, of models of whose name none was measured before in any library
(`estimator/dataset/catalogues/twelfth_libraries.py`). Models of measured families are of the twelfth, too: timm's,
torchvision's and transformers' in sizes of one's own, and of its libraries; a few that the fourteenth and the
eighteenth drew though nothing was fitted to them; and of the nineteenth: widely used families in sizes that were drawn
at random (`estimator/dataset/catalogues/sized.py`), a third of which judges while RAD is fitted to the others. The
configurations of measured models are two draws of the eighteenth: two of each widely used model, and one of one in five
of all models but other libraries'. All were drawn before they were measured, and nothing was fitted to these runs. How
often bounds of measured, kin and similar models may be too low was chosen by runs and models that were left out (see
below), before the nineteenth's were looked at; the eighteenth's and the twelfth's had been looked at with an earlier
fit, and chose nothing. Looks at earlier collections brought some rules: tables of graph networks and of sounds that are
cut into pieces are read by rules of their own. The lines are of every format that users have for each run, as `radctl
retrain` compares versions; prints of models that ran on another size of picture than the one taken are not in them.
{refused} of the {cases} summaries in the tables above are refused. The last line is of what `radctl summarize` prints
where it can run a model's code on tensors without data: a table of all layers, with what steps take in this rehearsal
at the run's batch size.

"""
ASKED = """
### Widely used models, as they are asked for

Of {models} widely used models (`estimator/dataset/catalogues/usual.py`) the thirteenth collection, and after it the
fourteenth, measured a grid of usual configurations, which is fitted to. The eighteenth drew {drawn} more at random:
batch size, optimizer, precision, training or inference, classes, size of picture, length. {there} of these were
measured, {own} by a process of their own, too, twelve steps long as NVML sees it: as a job runs. {fitted} of the
{there} lie in the grid, or were measured before: of what users ask for so many are known themselves. `not fitted to`
leaves them out; what is `repeated` there is known from another head, or from an optimizer that takes as much. Here,
too, prints of models that ran on another size of picture than the one taken are left out.

"""
ASKED_HEAD = ("measured by", "runs", "taken for", "summaries", "median error", "under-estimates", "mean over-estimate")
WORST = """
Of {families} families that were not measured, {some} have a bound that is too low; these have one for more than one
summary in ten:

"""
WORST_HEAD = ("family", "summaries", "median error", "under-estimates")
LOOKS = {
    "known": "measured models in other configurations",
    "known18": "of these: widely used models",
    "all18": "of one in five of all models",
    "kin": "models that were not measured, of measured families, in other libraries or sizes",
    "kin19": "of these: widely used families in drawn sizes",
    "fresh": "families that were not measured",
    "shown": "of these: tables that show all layers, of models that were rehearsed",
    "rehearsed": "the same, with the rehearsal",
}
LOOKS_HEAD = ("runs", "summaries", "median error", "under-estimates", "mean over-estimate of the actual")
LEVELS = """
### What was measured of a model, and what is new

RAD tells five cases apart, and says which in the reasons of an estimate. `repeated`: a run of the same architecture in
the same configuration is in the data; it is followed alone. `measured`: runs of the same architecture (types of layers,
number of steps, parameters within 3.5 %) are in the data, in other configurations. `kin`: models with the same types of
layers are, of other sizes. `similar`: models that share more than 60 % of the types are. `new`: nothing like it. Here
the real models of all families that were fitted to are judged, each by models that were fitted without it, and by
bounds that were set without its family, in three ways: without this one run, without its model (all heads and sizes of
input of it), without its whole architecture family. The lines beneath are what of these the model took for repeated,
measured, kin, similar or new; some architectures have several names, and some families the same blocks. `drawn at
random` are configurations of measured models as users would ask for them; all others were measured to cover, or because
nothing near them was, and without them less is known than RAD knows of most requests. The bounds of what was measured
are set by the drawn ones, those of what is repeated by other runs of the same model: a model that is left out can only
be repeated by another that looks the same, which RAD cannot tell. The last line is of {rehearsed} of these runs that
were rehearsed at their batch size, in the table that shows all layers, without their family. Which workspaces
convolutions ask for was measured of convolutions like those of these models, too, so that what is
new may get less than this line says; the table of new models above shows that.
The room that bounds of trainings have for gradients that are freed late
([Training loops](../trainings.md#training-loops)) is in the tables above, not in those that follow.

"""
LEVELS_HEAD = ("left out", "taken for", "summaries", "median error", "too low", "over", "half over by less")
FORMATS = """
By format, too low / over:

"""
LIMITS = """
### What limits the bound

The same for several shares of misses that bounds are set to, too low / over; the second line is what RAD's are set to:
{repeated:.2f} % of the runs that another of their model repeats, {measured:.2f} % of the runs that were drawn at random
where the architecture was measured, {kin:.2f} % where its kin were and {similar:.2f} % where similar models were, of
runs without their models, each family counting the more the more runs it has, but not in proportion, and {new:.2f} %
where nothing was. There misses are more than that, because accounts that were not understood widen no bound. The last
columns are of an account that no summary can give: what PyTorch's allocator really handed out in each run. What is left
there is what the allocator reserves beyond it, which follows from the order in which it splits its blocks: however good
the account, a bound that is too low for one run in a hundred comes no nearer than that. A rehearsal follows this order,
too. They are of {of:,} summaries: of each run the one that shows all layers.

"""
