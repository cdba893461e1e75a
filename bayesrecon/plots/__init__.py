"""Plots of a recovery: what was recovered and how precisely, against the truth, and the kernel's spectrum.

Plots of a diagnosis: the spectrum beside its noise, and the visibility of features. Plots of a reconstruction: its
records, its gap and its traces.

Every function draws into the `ax` it is given, or into a new pyplot figure, and returns the Axes. Nothing
here shows a figure, chooses a backend or changes a global setting; matplotlib is imported on first use.
"""

from bayesrecon.plots.audit import plot_audit as plot_audit
from bayesrecon.plots.audit import plot_pointwise as plot_pointwise
from bayesrecon.plots.audit import plot_remedies as plot_remedies
from bayesrecon.plots.bounds import plot_bounds as plot_bounds
from bayesrecon.plots.deletion import plot_deleted as plot_deleted
from bayesrecon.plots.deletion import plot_images as plot_images
from bayesrecon.plots.deletion import plot_inference as plot_inference
from bayesrecon.plots.deletion import plot_similarity as plot_similarity
from bayesrecon.plots.diagnosis import plot_diagnosis as plot_diagnosis
from bayesrecon.plots.diagnosis import plot_diagnosis_spectrum as plot_diagnosis_spectrum
from bayesrecon.plots.diagnosis import plot_visibility as plot_visibility
from bayesrecon.plots.forest import plot_recovery as plot_recovery
from bayesrecon.plots.game import plot_game as plot_game
from bayesrecon.plots.matched import plot_matched as plot_matched
from bayesrecon.plots.outputs import plot_input as plot_input
from bayesrecon.plots.planner import plot_plan as plot_plan
from bayesrecon.plots.reconstruction import plot_reconstruction as plot_reconstruction
from bayesrecon.plots.reconstruction import plot_traces as plot_traces
from bayesrecon.plots.records import plot_records as plot_records
from bayesrecon.plots.report import audit_page as audit_page
from bayesrecon.plots.scatter import plot_recovered_against_true as plot_recovered_against_true
from bayesrecon.plots.spectrum import plot_spectrum as plot_spectrum
from bayesrecon.plots.summary import plot_summary as plot_summary
from bayesrecon.plots.witness import plot_witness as plot_witness
