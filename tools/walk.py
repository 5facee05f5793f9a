"""Follows calls through the source: prints the files of a function and of all that it calls, in the order of the calls.

Each function is entered once, where it is first called or passed on. Calls through a protocol or a registry are not followed.
"""

import ast
import sys
from itertools import groupby
from pathlib import Path

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
# Expressions that have the class, or stand for the function, of one of their parts.
TRANSPARENT = ast.Await | ast.BinOp | ast.BoolOp | ast.IfExp | ast.List | ast.Starred | ast.Subscript | ast.Tuple


class Walk:
    """Definitions, imports and annotations by dotted name, and the functions that were entered, in their order."""

    def __init__(self, root: Path = Path(), packages: tuple[str, ...] = ("grader", "sandbox")) -> None:
        self.entered: dict[str, str] = {}  # files by function
        self.nodes: dict[str, tuple[str, ast.AST]] = {"": ("", ast.Pass())}  # with the module whose names they use; a module with its file
        for path in (path for package in packages for path in (root / package).rglob("*.py") if "v1" not in path.parts):
            module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            tree = ast.parse(path.read_text())
            self._define(module, module, tree)
            self.nodes[module] = str(path.relative_to(root)), tree
            for node in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != module):
                self.nodes |= {f"{module}.{a.asname or a.name}": ("", ast.alias(f"{node.module}.{a.name}")) for a in node.names}

    def _define(self, name: str, module: str, node: ast.AST) -> None:
        self.nodes[name] = module, node
        parameters = {argument.arg: argument.annotation for argument in node.args.args} if isinstance(node, FUNCTION) else {}
        if isinstance(node, FUNCTION):
            self.nodes[f"{name}()"] = module, node.returns or ast.Pass()
        for child in node.body if not isinstance(node, FUNCTION) or name.endswith(".__init__") else ():
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self._define(f"{name}.{child.name}", module, child)
                case ast.AnnAssign(target, value) | ast.Assign([ast.Attribute() as target], value):
                    field = f"{name.removesuffix('.__init__')}.{ast.unparse(target).removeprefix('self.')}"
                    self.nodes[field] = module, parameters.get(ast.unparse(value)) or value

    def find(self, name: str) -> str:
        """Return the definition that a dotted name stands for: of an import its origin, of a field its class; "" where it is not ours."""
        owner, _, last = name.rpartition(".")
        if name in self.nodes:
            module, node = self.nodes[name]
            defined = isinstance(node, FUNCTION | ast.ClassDef | ast.Module)
            return name if defined else self.find(node.name) if isinstance(node, ast.alias) else self.value(node, module)
        origin = self.find(owner)
        module, node = self.nodes[origin]
        places = [self.value(base, module) for base in getattr(node, "bases", ())] if origin == owner else [origin]
        return next(filter(None, (self.find(f"{place}.{last}") for place in places if place)), "")

    def value(self, node: ast.AST, module: str, names: dict[str, str] | None = None) -> str:
        """Return the function that an expression names, or the class of its value. names: those of local names."""
        match node:
            case ast.Name(name):
                return names[name] if names and name in names else self.find(f"{module}.{name}")
            case ast.Attribute(owner, attribute):
                definition = self.value(owner, module, names)
                definition += "()" if f"{definition}()" in self.nodes else ""  # a property
                return self.find(f"{definition}.{attribute}") if definition else ""
            case ast.Call(function):
                callee = self.value(function, module, names)
                return self.find(f"{callee}()") if f"{callee}()" in self.nodes else callee
        parts = ast.iter_child_nodes(node) if isinstance(node, TRANSPARENT) else ()
        return next(filter(None, (self.value(part, module, names) for part in parts)), "")

    def enter(self, name: str) -> None:
        """Enter a function, or what makes an object of a class, and all that it calls."""
        module, node = self.nodes[name]
        for constructor in ("__init__", "__post_init__", "__enter__", "__aenter__") if isinstance(node, ast.ClassDef) else ():
            self.enter(self.find(f"{name}.{constructor}"))
        if isinstance(node, FUNCTION) and name not in self.entered and not (len(node.body) == 1 and ast.get_docstring(node)):
            self.entered[name] = self.nodes[module][0]
            self._visit(node, module, dict.fromkeys(("self", "cls"), name.rpartition(".")[0]))

    def _visit(self, node: ast.AST, module: str, names: dict[str, str]) -> None:
        called = [node.func, *node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
        for child in called or (*getattr(node, "generators", ()), *ast.iter_child_nodes(node)):
            self._visit(child, module, names)
            definition = self.value(child, module, names)
            _, code = self.nodes[definition]
            is_property = isinstance(child, ast.Attribute) and "property" in ast.unparse(getattr(code, "decorator_list", []))
            if is_property or (called and (child is node.func or isinstance(code, FUNCTION))):
                self.enter(definition)
        sources = [getattr(node, field) for field in ("annotation", "value", "iter", "context_expr") if hasattr(node, field)]
        for child in ast.iter_child_nodes(node) if sources else ():
            for part in ast.walk(child) if isinstance(child, ast.Name | ast.Tuple) else ():
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    names[part.id] = self.value(sources[0], module, names)
        if isinstance(node, ast.arg) and node.annotation:
            names[node.arg] = self.value(node.annotation, module)


def main() -> None:
    """Print the walks from the functions on the command line, each as FILE:FUNCTION."""
    for start in sys.argv[1:] or ("grader/grading/pipeline.py:grade", "sandbox/judge/lane.py:judge"):
        walk = Walk()
        walk.enter(start.replace("/__init__", "").replace(".py:", ".").replace("/", "."))
        stays = [(file, [*names]) for file, names in groupby(walk.entered, key=walk.entered.__getitem__)]
        for file, names in stays:
            sys.stdout.write(f"{file:46} {', '.join(name.rpartition('.')[2] for name in names)}\n")
        count = len({*walk.entered.values()})
        sys.stdout.write(f"{start}: {count} files, {len(stays) - count} returns to a file already left\n\n")


if __name__ == "__main__":
    main()
