"""Files that are not read: which tool they look like, and how it exports draws."""

from collections.abc import Mapping

_PANDAS = "write it with to_csv, with the columns .chain and .draw"
_TOOLS: Mapping[tuple[str, ...], tuple[str, str]] = {
    (".parquet", ".feather", ".arrow", ".ipc"): ("a table of pandas, polars or Arrow", _PANDAS),
    (".xlsx", ".xls", ".ods"): ("a spreadsheet", "save it as .csv"),
    (".dta",): ("a file of Stata", "save it as .csv with export delimited"),
    (".sav", ".por"): ("a file of SPSS", "save it as .csv"),
    (".sas7bdat", ".xpt"): ("a file of SAS", "write it with proc export as .csv"),
    (".mat",): ("a file of MATLAB", "write it with writetable as .csv"),
    (".qs", ".qs2", ".fst"): ("an object of R", "write it with saveRDS, or write.csv(posterior::as_draws_df(fit))"),
    (".jls", ".jld", ".jld2"): ("an object of Julia", "write it with CSV.write(\"draws.csv\", DataFrame(chain))"),
    (".npy",): ("one array of NumPy", "write it with np.savez(path, name=array), as (chains, draws, *shape)"),
    (".fits",): ("a file of astropy", "write its columns with np.savez, as (chains, draws, *shape)"),
    (".db", ".sqlite"): ("a database, as old versions of PyMC wrote their traces", "write it with arviz.to_netcdf"),
    (".dill", ".cloudpickle"): ("a saved object of Python", "write draws with arviz.to_netcdf or np.savez"),
    (".save", ".sav2", ".state"): (
        "the state of a sampler, such as dynesty's, which is a pickle",
        "of dynesty write np.savez(path, **{k: results[k] for k in ('samples', 'logwt', 'logl', 'logvol')})",
    ),
    (".stan",): ("a program of Stan, which holds no draws", "pass the file of the fit, and the program as --model"),
    (".ind",): ("the index of CODA", "pass the chains, CODAchain1.txt; it is found beside them"),
    (".paramnames", ".ranges"): ("getdist's list of names", "pass the chains, ROOT_1.txt; it is found beside them"),
    (".yaml", ".yml"): ("settings", "pass the file of the draws"),
    (".gz", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".7z", ".rar"): ("a compressed file", "unpack it"),
    (".keras", ".tflite", ".ckpt"): ("a trained model", "save its weights as .safetensors or .npz"),
}  # fmt: skip


def hint(suffix: str) -> str:
    """What a file of this suffix looks like and how its draws are exported, as the end of a message; else nothing.

    >>> hint(".parquet")
    '; it looks like a table of pandas, polars or Arrow: write it with to_csv, with the columns .chain and .draw'
    """
    for suffixes, (tool, export) in _TOOLS.items():
        if suffix in suffixes:
            return f"; it looks like {tool}: {export}"
    return ""
