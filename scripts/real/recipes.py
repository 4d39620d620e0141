"""Recipes that the tables compare: layers dropped, another tool, and jobs of dotresize."""

from dataclasses import dataclass, field

SIZES = (0.95, 0.9, 0.8, 0.7)
WINDOWS = 16  # calibration, spread evenly over the text
CUSTOM, STOCK = "custom", "stock"
OF_THE_SIZE = object()  # stands for the features of each MLP with which a job meets its size by them alone
OF_THE_MODEL = object()  # stands for the model's hidden size


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    format: str
    method: dict = None  # section of the job file; None: not a job
    output: dict = field(default_factory=dict)  # section of the job file, without the path
    windows: int = WINDOWS
    heal: dict = None  # section of the job file; None: nothing is trained
    first_round: str = None  # the recipe that has the same one; None: this

    @property
    def is_job(self):
        return self.method is not None

    @property
    def allocates(self):
        return self.method == SIZE_ALONE


MLPS_ALONE = {"name": "slicegpt", "width": OF_THE_MODEL, "mlp": {"width": OF_THE_SIZE}}
SIZE_ALONE = {}

RECIPES = (
    Recipe("dropped", "layers dropped by block influence", STOCK),
    Recipe("optipfair", "optipfair 0.4.2", STOCK),
    Recipe("slicegpt", "slicegpt", CUSTOM, {"name": "slicegpt"}),
    Recipe("mlps", "MLPs alone", STOCK, MLPS_ALONE, {"format": "stock"}),
    Recipe("mlps-fisher", "MLPs alone, fisher", STOCK, {**MLPS_ALONE, "metric": "fisher"}, {"format": "stock"}),
    Recipe("allocate", "size alone", CUSTOM, SIZE_ALONE),
    Recipe("allocate-64", "size alone, 64 windows", CUSTOM, SIZE_ALONE, windows=64),
    Recipe("allocate-stock", "size alone", STOCK, SIZE_ALONE, {"format": "stock"}),
    Recipe("healed", "size alone, healed", CUSTOM, SIZE_ALONE, heal={}, first_round="allocate"),
    Recipe("healed-128", "size alone, healed with 128 windows", CUSTOM, SIZE_ALONE, heal={"samples": 128}, first_round="allocate"),
    Recipe("healed-stock", "size alone, healed", STOCK, SIZE_ALONE, {"format": "stock"}, heal={}, first_round="allocate-stock"),
)
NAMES = [recipe.name for recipe in RECIPES]


def filled(options, values):
    """The options with values in place of what stands for them."""
    if isinstance(options, dict):
        return {key: filled(value, values) for key, value in options.items()}
    return values[options] if options in values else options


def method_of(recipe, size, hidden_size, features):
    """The section `method` of the recipe's job. features: of each MLP, if they alone are cut."""
    method = filled(recipe.method, {OF_THE_MODEL: hidden_size, OF_THE_SIZE: features})
    return method if "width" in method else {**method, "size": size}
