"""Lines that CmdStan writes beside its draws, and those that somebody else did."""

import re
from collections.abc import Sequence

from bayesrecon.auditing.accounts.texts import is_date

_VALUE = r"[\w.+:/\\ -]{0,200}"
_KEYS = {
    "stan_version_major", "stan_version_minor", "stan_version_patch", "model", "start_datetime", "method",
    "num_samples", "num_warmup", "save_warmup", "thin", "engaged", "gamma", "delta", "kappa", "t0", "init_buffer",
    "term_buffer", "window", "save_metric", "algorithm", "engine", "max_depth", "metric", "metric_file", "stepsize",
    "stepsize_jitter", "num_chains", "id", "file", "init", "seed", "output", "diagnostic_file", "refresh", "sig_figs",
    "profile_file", "save_cmdstan_config", "num_threads", "stanc_version", "stancflags", "mpi_enabled",
    "opencl_device", "opencl_platform_name", "Step size", "warmup", "iter", "chain_id", "append_samples", "sampler_t",
    "int_time", "fitted_params", "mode", "jacobian", "draws", "calculate_lp", "init_alpha", "tol_obj", "tol_rel_obj",
    "tol_grad", "tol_rel_grad", "tol_param", "history_size", "save_iterations", "grad_samples", "elbo_samples", "eta",
    "output_samples", "eval_elbo", "num_psis_draws", "num_paths", "psis_resample", "max_lbfgs_iters", "num_draws",
    "num_elbo_draws", "save_single_paths",
}  # fmt: skip
_FREE = {
    "fitted_params", "mode", "file", "diagnostic_file", "profile_file", "metric_file", "model", "init", "stancflags"
}  # fmt: skip  # whose values are texts of any kind
_SETTING = re.compile(rf"({'|'.join(map(re.escape, sorted(_KEYS)))})\s*=\s*({_VALUE}?)(\s*\(Default\))?")
_SECTIONS = re.compile(
    r"(data|random|output|adapt|hmc|nuts|fixed_param|static|adaptation terminated|\d{0,6}|sample|"
    r"generate_quantities|laplace|pathfinder|variational|optimize|lbfgs|bfgs|newton|meanfield|fullrank|"
    r"stepsize adaptation complete\.|"
    r"(diagonal )?elements of inverse mass matrix:|no free parameters for unit metric|"
    r"samples were generated using stan.*|for each parameter, n_eff .{0,200})", re.IGNORECASE
)  # fmt: skip
_TIME = re.compile(r"(Elapsed Time:\s*)?[\d.e+-]+ seconds( \((Warm-up|Sampling|Pathfinders?|PSIS|Total)\))?")
_ROW = re.compile(r"[-+\d.eE]+(\s*,\s*[-+\d.eE]+)*")
_MATRIX = re.compile(r"(diagonal )?elements of inverse mass matrix:", re.IGNORECASE)


def odd_lines(lines: Sequence[str]) -> list[str]:
    """Lines that CmdStan does not write.

    >>> odd_lines(["method = sample (Default)", "Elapsed Time: 0.1 seconds", "y: 41, 63, 17"])
    ['y: 41, 63, 17']
    """
    odd, expected, width = [], 0, 0
    for line in lines:
        text = line.strip()
        if expected and _ROW.fullmatch(text):
            fields = text.count(",") + 1
            # A diagonal is one row; a matrix has as many rows as a row has entries.
            expected = fields - 1 if expected == -1 and width == 1 else max(expected - 1, 0)
            width = 0
            continue
        expected = width = 0
        if _MATRIX.fullmatch(text):
            expected, width = (1, 0) if text.lower().startswith("diagonal") else (-1, 1)
            continue
        if not text or _is_own(text):
            continue
        odd.append(line)
    return odd


def _is_own(text: str) -> bool:
    if _SECTIONS.fullmatch(text) or _TIME.fullmatch(text):
        return True
    match = _SETTING.fullmatch(text)
    if match is None:
        return False
    key, value = match[1], match[2].strip()
    if key in _FREE or key == "start_datetime":
        return key != "start_datetime" or is_date(value) or value == ""
    return len(value) <= 40
