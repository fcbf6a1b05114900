"""How a part says that something is wrong."""


class Failure(Exception):
    def __init__(self, seed, what):
        super().__init__(what)
        self.seed = seed
