from .autograd import optional_module as optional_module
