"""Recipes that the table compares: jobs but for the method's name and the size."""

from dataclasses import dataclass, field

METHODS = ("magnitude", "dotresize", "slicegpt", "pca_dotresize")
BASELINE = "slicegpt"  # the method that the tiny models are measured against
SIZES = (0.95, 0.9, 0.8, 0.7, 0.6)
CUSTOM, STOCK = "custom", "stock"
NO_METHOD = "none"  # a baseline that has nothing of dotresize in it

# Fractions of the MLPs' features that are removed, by size; a little less than 1/24, 1/12, 1/6, 1/4 and 1/3.
CUT = {0.95: 0.0416, 0.9: 0.0833, 0.8: 0.1666, 0.7: 0.25, 0.6: 0.3333}


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    format: str
    methods: tuple
    options: dict = field(default_factory=dict)  # keys of the section method
    output: dict = field(default_factory=dict)  # keys of the section output
    cut: dict = None  # by size, mlp.sparsity
    mlps_alone: bool = False  # the size is met by the features of the MLPs: mlp.width
    drops_layers: bool = False  # no job: transformers' model without some layers
    paper: bool = False  # the paper's methods, without measures of ours
    of_families: bool = False  # also run for the tiny models
    heal: dict = None  # the section; None: there is none


ONE_MAP = {"format": "stock"}
FISHER = {"metric": "fisher"}

RECIPES = (
    Recipe("own", "maps of their own", CUSTOM, METHODS, paper=True, of_families=True),
    Recipe("allocate-any", "size alone", CUSTOM, ("slicegpt",), {"allocate": "auto"}, {"format": "any"}, of_families=True),
    Recipe("one", "one map", STOCK, METHODS, {}, ONE_MAP, paper=True, of_families=True),
    Recipe("one-fisher", "one map, fisher", STOCK, ("slicegpt", "pca_dotresize", "magnitude"), FISHER, ONE_MAP),
    Recipe("one-mlp", "one map, MLPs", STOCK, ("slicegpt",), {}, ONE_MAP, cut=CUT),
    Recipe("one-fisher-mlp", "one map, fisher, MLPs", STOCK, ("slicegpt",), FISHER, ONE_MAP, cut=CUT, of_families=True),
    Recipe("mlps", "MLPs alone", STOCK, ("slicegpt",), {"sparsity": 0}, ONE_MAP, mlps_alone=True, of_families=True),
    Recipe("dropped", "layers dropped by block influence", STOCK, (NO_METHOD,), drops_layers=True, of_families=True),
    Recipe("allocate-stock", "size alone", STOCK, ("slicegpt",), {"allocate": "auto"}, {"format": "stock"}, of_families=True),
    Recipe("healed", "size alone, healed", CUSTOM, ("slicegpt",), {"allocate": "auto"}, {"format": "any"}, of_families=True, heal={}),
    Recipe("healed-stock", "size alone, healed", STOCK, ("slicegpt",), {"allocate": "auto"}, {"format": "stock"}, of_families=True, heal={}),
)  # fmt: skip
UNHEALED = {"healed": "allocate-any", "healed-stock": "allocate-stock"}  # a healed recipe, and the same without healing
