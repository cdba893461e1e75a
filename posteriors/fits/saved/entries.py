"""The inventory of a file of saved objects: its items, with their roles if these are known."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import Entry, entry_of_bytes
from bayesrecon.posteriors.roles import CUT, ESTIMATE, LEAF, RECORD, SEED, TABLE, TOTAL
from bayesrecon.posteriors.siblings import joined

_FEWEST = 8
"""Smallest number of records for which an array of that length is taken for one value per record. With fewer records it
may have one value per column."""

_KINDS = {"setting": "attribute", "array": "array", "labels": "labels", "text": "text", "name": "name"}

_COUNTED = re.compile(r"^(\d{1,4}(\.|$))+")
"""Numbers of the layers of a network in front of a name, as in `0.weight`."""

_TABLES = ("pandas.DataFrame", "pandas.Series", "pandas.core.frame.DataFrame", "pandas.core.series.Series")
_COLUMN = "a table whose rows may be records"
_LENGTH = "it has as many entries as there are records"


def parts_of(items: Iterable[Json], objects: Iterable[tuple[str, str]]) -> tuple[Entry, ...]:
    """The items of a file with their roles.

    Args:
        items: from `SavedFile.everything`.
        objects: places and classes of all objects of the file.
    """
    classes = dict(objects)
    parts = [_part(item, classes) for item in items]
    count = records_of(parts)
    return tuple(_by_length(part, count) for part in joined(parts) if part.kind != "name" or part.values)


def _part(item: Json, classes: Mapping[str, str]) -> Entry:
    where, values, owner = str(item["where"]), item["values"], str(item["of"])
    path = tuple(map(str, item["path"]))
    kind = _KINDS.get(item["kind"], "bytes")
    if kind == "bytes" and owner.startswith("datetime.") and (moment := _moment(bytes(values))):
        kind, values = "attribute", moment
    if kind == "bytes":
        entry = entry_of_bytes(where, bytes(item["values"]))
        kind, values = entry.kind, entry.values
    if kind == "name":
        return Entry(where, kind, _COUNTED.sub("", str(values)), of=owner)
    aside = kind == "attribute" and owner.startswith("pandas.")  # of a table, whose values are arrays
    known = None if aside else kept(where, owner, _enclosing_classes(where, classes))
    if known is None:
        return Entry(where, kind, values, of=owner, path=path)
    return Entry(where, kind, values, known.role, of=owner, why=known.why, path=path)


def _moment(content: bytes) -> str:
    """The date or time that `datetime` saves as four or ten bytes; "" for other bytes."""
    if len(content) not in (4, 10):
        return ""
    year, month, day = 256 * content[0] + content[1], content[2] & 127, content[3]
    clock = "".join(f"{sign}{number:02d}" for sign, number in zip("T::", content[4:7], strict=False))
    return f"{year:04d}-{month:02d}-{day:02d}{clock}" + (f".{int.from_bytes(content[7:]):06d}" if clock else "")


def _enclosing_classes(where: str, classes: Mapping[str, str]) -> tuple[str, ...]:
    """Classes of the objects that contain a place, the outermost first."""
    ends = [i for i, letter in enumerate(where) if letter in "./"]
    return tuple(classes[where[:i]] for i in (0, *ends) if where[:i] in classes)


def records_of(parts: Iterable[Entry]) -> int:
    """The number of records, from the lengths of arrays with one entry per record; 0 if it is unknown."""
    lengths = Counter[int]()
    for part in parts:
        if part.role == RECORD and part.kind == "array" and np.ndim(part.values):
            lengths[len(part.values)] += 1
        elif part.where.rpartition(".")[2] in ("nobs", "n_samples_fit_", "n_samples_", "_n_samples"):
            number = np.asarray(part.values)
            if number.size == 1 and number.dtype.kind in "iuf" and 0 < number < 2**40:
                lengths[int(number)] += 1
    return max(lengths, key=lambda n: (lengths[n], n)) if lengths else 0


def _by_length(part: Entry, count: int) -> Entry:
    """The part, with the role of records if it is as long as there are records, or is a column of a table."""
    values = part.values
    if not part.role and part.kind == "array" and part.of in _TABLES:
        return replace(part, role=TABLE, why=_COLUMN)
    if part.role or part.kind not in ("array", "labels") or count < _FEWEST or not np.ndim(values):
        return part
    return replace(part, role=RECORD, why=_LENGTH) if count in np.shape(values) else part


# Data that objects of common libraries store, by the names of their attributes, and the reasons.
#
# A name says what the library stores there, but a file can have something else in its place. So no name makes data
# harmless: only values can (`bayesrecon.auditing.accounts.settings`).


@dataclass(frozen=True)
class StoredData:
    """Content of an attribute.

    Attributes:
        role: one of `bayesrecon.posteriors.roles`.
        why: the reason, for people.
        of: regular expression of the classes that it applies to; empty for all.
    """

    role: str
    why: str
    of: str = ""


_ROWS = "it predicts from every training row, and keeps them as they are"
_TARGETS = "it predicts from the outcome of every training row, and keeps them"
_MARGIN = "they are the training rows at the margin, as they are"
_WEIGHT = "a weight for each training row that it keeps"
_EACH = "a value for each training row"
_TABLE = "a result of statsmodels keeps the data of its fit; remove_data() leaves the table that the formula was given"
_MODEL = "a result of statsmodels keeps a value for each record of its fit"
_SPLIT = "a threshold lies midway between the values of two records, or is the value of one"
_LEAVES = "the outcome of the records in a leaf: of a leaf with one record, that record's own"
_QUANTILES = "quantiles of the records; of as many as there are records, the sorted values themselves"
_EXTREME = "the smallest and the largest value of a column are each those of one record"
_MEANS = "exact means, scatters and counts of the records"
_CATEGORY = "the mean outcome of a category: of a category with one record, that record's own"

_GP, _TREES = r"GaussianProcess|_BinaryGaussian", r"\.Tree$|TreePredictor"

_ATTRIBUTES: tuple[tuple[StoredData, str], ...] = (
    (StoredData(CUT, _SPLIT, "onnx"), "nodes_values"),
    (StoredData(LEAF, _LEAVES, "onnx"), """
        target_weights class_weights leaf_weights target_ids class_ids nodes_featureids nodes_truenodeids
        nodes_falsenodeids nodes_nodeids nodes_hitrates nodes_modes nodes_treeids class_nodeids target_nodeids
        class_treeids target_treeids nodes_missing_value_tracks_true"""),
    (StoredData(ESTIMATE, "estimates", "onnx"), "coefficients intercepts rho prob_a prob_b kernel_params"),
    (StoredData(ESTIMATE, "estimates", "pmml"), """
        intercept coefficient beta absoluteValue alternateBinaryTargetCategory"""),
    (StoredData(LEAF, _LEAVES, "pmml"), "recordCount score confidence probability"),
    (StoredData(CUT, _SPLIT, "pmml"), "value"),
    (StoredData(CUT, _EXTREME, "pmml"), "leftMargin rightMargin minValue maxValue minimum maximum"),
    (StoredData(TOTAL, _MEANS, "pmml"), """
        numberOfRecords totalFreq missingFreq invalidFreq populationSize size mean variance standardDeviation count"""),
    (StoredData(RECORD, _MARGIN, "onnx"), "support_vectors"),
    (StoredData(RECORD, _ROWS, ""), "_fit_X X_train_ X_fit_ X_ training_data_"),
    (StoredData(RECORD, _TARGETS, ""), "_y y_train_ transduction_"),
    (StoredData(RECORD, _MARGIN, ""), "support_vectors_ _support_vectors"),
    (StoredData(RECORD, _WEIGHT, rf"SV[CRM]|KernelRidge|KernelPCA|LabelSpreading|{_GP}"), """
        dual_coef_ _dual_coef_ alpha_ L_ eigenvectors_ W_sr_ pi_ f_cached"""),
    (StoredData(RECORD, _EACH, ""), """
        labels_ embedding_ affinity_matrix_ dist_matrix_ core_sample_indices_ negative_outlier_factor_
        _distances_fit_X_ _neighbors_indices_fit_X_ _lrd _mask_fit_X label_distributions_ inlier_mask_ raw_support_
        dist_ children_ distances_ oob_prediction_ oob_decision_function_ cv_values_ row_labels_ indices_
        estimators_samples_ reachability_ ordering_ core_distances_ predecessor_"""),
    (StoredData(RECORD, "which of the training rows it keeps", ""), "support_"),
    (StoredData(RECORD, _ROWS, "DBSCAN|Nystroem|OPTICS"), "components_"),
    (StoredData(ESTIMATE, "estimates", ""), """
        components_ coef_ intercept_ coefs_ intercepts_ coefs_paths_ coef_path_ params params_ normalized_cov_params
        confidence_intervals_ _best_coefs _best_intercepts _optimizer sign_ cov_params_default cov_params bse tvalues
        pvalues Hessian score start_params fit_history history mle_retvals variance_matrix_ standard_errors_ hessian_
        _hessian_ alpha_ fe_params cov_re cov_re_unscaled bse_fe vcomp k_vcomp explained_variance_
        explained_variance_ratio_ singular_values_ singular_ scalings_ rotations_ lambda_ lambdas_ alphas_
        estimator_weights_ estimator_errors_ feature_importances_ precision_ precisions_ precisions_cholesky_
        precision_cholesky_ _max_coord eigenvalues_ kernel_ normalization_ probA_ probB_ _probA _probB a_ b_
        decision_scores_ component_indices_ mixing_ whitening_ _whitening _base_ baseline_prediction_
        _baseline_prediction feature_log_prob_ class_log_prior_ _packed_weights coef0 variances_ gamma_ _gamma
        dual_gap_ _intercept_ _coef _intercept random_weights_ random_offset_ means_init thresholds_ _coef_ theta
        _theta hyperparameters"""),
    (StoredData(RECORD, "values of single records, between which it interpolates", "Isotonic|interp"), """
        X_thresholds_ y_thresholds_ X_min_ X_max_ f_"""),
    (StoredData(CUT, _QUANTILES, ""), "quantiles_ references_"),
    (StoredData(RECORD, _TABLE, ""), "frame orig_endog orig_exog endog exog"),
    (StoredData(RECORD, _MODEL, "statsmodels"), """
        wendog wexog pinv_wexog resid wresid fittedvalues mu hat_matrix_diag resid_response _freq_weights _var_weights
        _iweights freq_weights var_weights endog_re exog_re exog_vc groups row_labels missing_row_idx resid_pearson
        resid_working resid_deviance resid_generalized llf_obs score_obs exog_re_li exog_re2_li row_indices _quad
        _tmp_like_exog endog_li exog_li _aex_r _aex_r2 _endex_li group_labels random_effects wexog_x data_exog
        predicted offset exposure iweights n_trials"""),
    (StoredData(RECORD, "it keeps durations, events, or a step of its curve for each", "lifelines|pandas"), """
        durations event_observed event_table survival_function_ cumulative_density_ timeline entry baseline_hazard_
        baseline_cumulative_hazard_ baseline_survival_ _predicted_partial_hazards_ _central_values weights lower_bound
        upper_bound confidence_interval_ _cumulative_sq_ confidence_interval_survival_function_
        confidence_interval_cumulative_density_ _schoenfeld_residuals E T"""),
    (StoredData(CUT, _SPLIT, ""), "threshold num_threshold bin_thresholds_ bin_edges_"),
    (StoredData(LEAF, _LEAVES, _TREES), """
        values value left_child right_child max_depth node_count feature impurity n_node_samples
        weighted_n_node_samples missing_go_to_left left_cat_bitset right_cat_bitset raw_left_cat_bitsets
        binned_left_cat_bitsets count feature_idx left right gain depth is_leaf bin_threshold is_categorical
        bitset_idx"""),
    (StoredData(LEAF, "trees in the format of their library, in whose leaves are outcomes", "xgboost|lightgbm"), """
        handle _handle model_str _model_str"""),
    (StoredData(LEAF, _CATEGORY, r"category_encoders\.(?!ordinal)|TargetEncoder"), """
        encodings_ mapping ordinal_encoder"""),
    (StoredData(CUT, _EXTREME, ""), "data_min_ data_max_ data_range_ max_abs_ min_"),
    (StoredData(TOTAL, "means, or medians and most frequent values, which are values of records", ""), """
        statistics_ center_ _fill_dtype initial_imputer_"""),
    (StoredData(TOTAL, _MEANS, ""), """
        mean_ var_ scale_ n_samples_seen_ epsilon_ within_class_std_dev_ deviations_ K_fit_all_ _tol sparsity
        bandwidth theta_ class_count_ class_prior_ means_ xbar_ priors_ target_mean_ centroids_ location_ covariance_
        cluster_centers_ weights_ counts_ feature_count_ n_samples_ n_samples_fit_ n_support_ _n_support init_prior_
        covariances_ sigma_ x_mean y_mean _x_mean _y_mean _X_offset _y_offset X_offset_ y_train_mean _y_train_mean
        _y_train_std _x_std _y_std _norm_mean _norm_std subcluster_centers_ idf_ _idf_diag _n_examples _n_samples_seen
        _max_samples max_samples_ _n_samples n_total_samples_ class_weight_ offset_"""),
    (StoredData(ESTIMATE, "statistics of a fit", ""), """
        nobs wnobs _nobs_int n_obs df_resid _df_resid _nobs llf llnull aic bic bic_llf bic_deviance ssr ess
        centered_tss uncentered_tss rsquared rsquared_adj fvalue f_pvalue mse_model mse_resid mse_total deviance
        null_deviance pearson_chi2 null scale fopt eigenvals condition_number wexog_singular_values
        _wexog_singular_values diagn jarque_bera omni_normtest durbin_watson log_likelihood_ _log_likelihood AIC_
        concordance_index_ score_ oob_score_ train_score_ scores_ cv_results_ best_score_ loss_ loss_curve_ best_loss_
        mse_path_ refit_time_ _average_path_length_per_tree _decision_path_lengths inertia_ log_likelihood
        lower_bound_ log_marginal_likelihood_value_ _ll_null_ llr llr_pvalue prsquared _summary_statistics_cache
        reconstruction_err_ train_scores_ validation_scores_ validation_score_ evals_result_ _evals_result _best_score
        best_score cost_ lower_bounds_ noise_variance_"""),
    (StoredData(ESTIMATE, "weights of a network", "torch|OrderedDict|^$"), """
        weight bias running_mean running_var _parameters _buffers weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0
        in_proj_weight in_proj_bias"""),
    (StoredData(TOTAL, "averages of the gradients of the last batches of records", ""), """
        exp_avg exp_avg_sq momentum_buffer square_avg max_exp_avg_sq"""),
    (StoredData(SEED, "whoever guesses the data can fit again, and compare", ""), """
        random_state _random_state _seeds _random_seed _feature_subsample_rng _rng random_state_ rng _random seed"""),
)  # fmt: skip
"""Kinds of stored data, and the names of attributes that hold them."""


def _by_name() -> dict[str, list[StoredData]]:
    result: dict[str, list[StoredData]] = {}
    for entry, names in _ATTRIBUTES:
        for name in names.split():
            result.setdefault(name, []).append(entry)
    return result


KEPT = _by_name()
"""Entries by attribute name, in the order of the table; the first with a matching class applies."""

_TREE_OF_POINTS = re.compile(r"(KD|Ball)Tree(32|64)?$|cKDTree$")
_GENERATOR = re.compile(r"RandomState|MT19937|PCG64|Generator$|bit_generator", re.IGNORECASE)
_PARTS = re.compile(r"[./]")


def kept(where: str, of: str, owners: tuple[str, ...]) -> StoredData | None:
    """The entry of an item; None if its attribute is unknown.

    Args:
        where: place of the item.
        of: class of the object that has it.
        owners: classes of the enclosing objects.

    """
    if _TREE_OF_POINTS.search(of):
        return StoredData(RECORD, "a tree of points keeps the training rows, and boxes around them")
    if _GENERATOR.search(of):
        return KEPT["random_state"][0]
    classes = " ".join((of, *owners))
    if "pmml.Row" in classes:
        return StoredData(RECORD, _ROWS)
    for name in reversed(_PARTS.split(where)):
        for entry in KEPT.get(name, ()):
            if not entry.of or re.search(entry.of, classes) or (entry.of.endswith("^$") and not classes.strip()):
                return entry
    return None
