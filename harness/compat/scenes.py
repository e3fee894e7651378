"""Run one scene of Genesis and store its positions, gradients and times: `python scenes.py SCENE PRECISION STEPS FILE`.

This file is started as a script in a process of its own, under Quadrants or under `stackgrad.compat`, and imports
nothing of this project. The scenes are small: one thread of a CPU runs each of them in seconds.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DT = 4e-3
WARM = 2
"""Number of steps, or of backward passes, that run before the first one that is timed."""


@dataclass
class Scene:
    """Represent a scene of Genesis, described but not built yet, with functions that set its inputs and read results.

    Attributes:
        scene: the scene of Genesis.
        read: returns the tensor of positions; a state that gradients flow through if the scene has inputs.
        give: hands the inputs to the scene before the first step.
        inputs: the tensors whose gradients are compared; the scene is differentiable if there are any.
        steps: the number of steps that a differentiated rollout takes.
    """

    scene: Any
    read: Callable[[], Any]
    give: Callable[[], None] = lambda: None
    inputs: dict[str, Any] = field(default_factory=dict)
    steps: int = 4


def _plane_and(gs: Any, morph: Any, material: Any = None, **options: Any) -> tuple[Any, Any]:
    """Return a scene of a floor and one other entity, and that entity."""
    scene = gs.Scene(show_viewer=False, **options)
    scene.add_entity(gs.morphs.Plane())
    return scene, scene.add_entity(morph, **({"material": material} if material else {}))


def _sim(gs: Any, substeps: int = 1, **options: Any) -> Any:
    return gs.options.SimOptions(dt=DT, substeps=substeps, **options)


def _small_box(gs: Any, height: float = 0.15, size: float = 0.1) -> Any:
    return gs.morphs.Box(pos=(0.0, 0.0, height), size=(size, size, size))


def rigid_box(gs: Any) -> Scene:
    """Return a scene in which a tilted rigid box drops on a floor."""
    box = gs.morphs.Box(pos=(0.0, 0.0, 0.09), size=(0.1, 0.1, 0.1), euler=(20.0, 10.0, 0.0))
    scene, entity = _plane_and(gs, box, sim_options=_sim(gs))
    return Scene(scene, entity.get_verts)


def franka(gs: Any) -> Scene:
    """Return a scene in which a robot arm with nine joints falls from its first pose."""
    arm = gs.morphs.MJCF(file="xml/franka_emika_panda/panda.xml")
    scene, entity = _plane_and(gs, arm, sim_options=_sim(gs))
    return Scene(scene, entity.get_links_pos)


def duck(gs: Any) -> Scene:
    """Return a scene in which a mesh of a duck drops on a floor."""
    # One convex hull: cutting the mesh into several takes a minute that has nothing to do with kernels.
    hull = {"decompose_object_error_threshold": float("inf")}
    mesh = gs.morphs.Mesh(file="meshes/duck.obj", scale=0.04, pos=(0.0, 0.0, 0.1), **hull)
    scene, entity = _plane_and(gs, mesh, sim_options=_sim(gs))
    return Scene(scene, entity.get_verts)


def _mpm_options(gs: Any) -> Any:
    return gs.options.MPMOptions(lower_bound=(-0.3, -0.3, -0.1), upper_bound=(0.3, 0.3, 0.5), grid_density=32)


def mpm(gs: Any) -> Scene:
    """Return a scene in which an elastic cube of material points drops on a floor."""
    cube, elastic = _small_box(gs, 0.08), gs.materials.MPM.Elastic(sampler="regular")
    scene, entity = _plane_and(gs, cube, elastic, sim_options=_sim(gs, 4), mpm_options=_mpm_options(gs))
    return Scene(scene, entity.get_particles_pos)


def sph(gs: Any) -> Scene:
    """Return a scene in which a cube of water drops on a floor."""
    options = gs.options.SPHOptions(lower_bound=(-0.3, -0.3, 0.0), upper_bound=(0.3, 0.3, 0.6), particle_size=0.02)
    water = gs.materials.SPH.Liquid(sampler="regular")
    scene, entity = _plane_and(gs, _small_box(gs), water, sim_options=_sim(gs, 4), sph_options=options)
    return Scene(scene, entity.get_particles_pos)


def pbd(gs: Any) -> Scene:
    """Return a scene in which a cloth falls on a floor."""
    options = gs.options.PBDOptions(lower_bound=(-1.0, -1.0, 0.0), upper_bound=(1.0, 1.0, 1.0))
    cloth = gs.morphs.Mesh(file="meshes/cloth.obj", scale=0.5, pos=(0.0, 0.0, 0.05))
    material = gs.materials.PBD.Cloth()
    scene, entity = _plane_and(gs, cloth, material, sim_options=_sim(gs, 2), pbd_options=options)
    return Scene(scene, entity.get_particles_pos)


def fem(gs: Any) -> Scene:
    """Return a scene in which an elastic cube of finite elements drops on a floor."""
    scene = gs.Scene(show_viewer=False, sim_options=_sim(gs, 20))
    material = gs.materials.FEM.Elastic(E=1e5, nu=0.4, rho=1000.0)
    entity = scene.add_entity(_small_box(gs, 0.055), material=material)
    return Scene(scene, lambda: entity.get_state().pos)


def _leaf(gs: Any, values: list[float]) -> Any:
    torch = importlib.import_module("torch")
    return torch.tensor(values, dtype=gs.tc_float, requires_grad=True)


def mpm_grad(gs: Any) -> Scene:
    """Return a scene that differentiates an elastic cube's flight and landing by its first position and velocity."""
    scene = gs.Scene(show_viewer=False, sim_options=_sim(gs, 10, requires_grad=True), mpm_options=_mpm_options(gs))
    entity = scene.add_entity(_small_box(gs, 0.06), material=gs.materials.MPM.Elastic(sampler="regular"))
    place, speed = _leaf(gs, [0.0, 0.0, 0.055]), _leaf(gs, [0.3, 0.2, -1.0])

    def give() -> None:
        entity.set_position(place)
        entity.set_velocity(speed)

    return Scene(scene, lambda: entity.get_state().pos, give, {"place": place, "speed": speed})


def rigid_grad(gs: Any) -> Scene:
    """Return a scene that differentiates the slide of a rigid box on a floor by its first position and velocity."""
    scene, entity = _plane_and(gs, _small_box(gs, 0.06), sim_options=_sim(gs, 1, requires_grad=True))
    place, speed = _leaf(gs, [0.0, 0.0, 0.0499]), _leaf(gs, [0.3, 0.2, -0.1, 0.1, 0.2, 0.3])

    def give() -> None:
        entity.set_pos(place)
        entity.set_dofs_velocity(speed)

    return Scene(scene, lambda: entity.get_state().pos, give, {"place": place, "speed": speed}, 6)


SCENES: dict[str, Callable[[Any], Scene]] = {
    made.__name__: made for made in (rigid_box, franka, duck, mpm, sph, pbd, fem, rigid_grad, mpm_grad)
}
"""The scenes, cheapest first."""

Run = tuple[dict[str, Any], dict[str, float]]
"""Arrays, and times in seconds of the processor, each by its name.

Other processes of the machine hardly change the time that the processor spends on this one.
"""


def _timed(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def run_forward(scene: Scene, repeat: int) -> Run:
    """Run steps of a scene. Return how far everything moved, and the times of the first step and of a later one."""
    start = scene.read().clone()
    first = _timed(scene.scene.step)
    for _ in range(WARM):
        scene.scene.step()
    step = statistics.median(_timed(scene.scene.step) for _ in range(repeat))
    return {"moved": scene.read() - start}, {"first_step": first, "step": step}


def run_gradient(scene: Scene, repeat: int) -> Run:
    """Differentiate rollouts of a scene. Return positions, gradients, and the times of steps and backward passes."""

    def forward() -> Any:
        scene.scene.reset()
        scene.give()
        for _ in range(scene.steps):
            scene.scene.step()
        return scene.read()

    def rollout() -> tuple[float, float, Any]:
        begin = time.process_time()
        for tensor in scene.inputs.values():
            tensor.grad = None
        found = forward()
        middle = time.process_time()
        found.pow(2).sum().backward()
        return middle - begin, time.process_time() - middle, found

    first = rollout()
    for _ in range(WARM):
        rollout()
    later = [rollout() for _ in range(repeat)]
    arrays = {"position": later[-1][2], **{f"d {name}": tensor.grad for name, tensor in scene.inputs.items()}}
    times = {
        "first_step": first[0],
        "step": statistics.median(forward for forward, _, _ in later) / scene.steps,
        "first_backward": first[1],
        "backward": statistics.median(backward for _, backward, _ in later),
    }
    return arrays, times


def main(name: str, precision: str, repeat: int, file: str) -> None:
    """Run a scene and write one JSON object: the arrays as lists of numbers, and the times."""
    gs = importlib.import_module("genesis")
    gs.init(backend=gs.cpu, precision=precision, logging_level="error", seed=0)
    scene = SCENES[name](gs)
    build = _timed(scene.scene.build)
    arrays, times = (run_gradient if scene.inputs else run_forward)(scene, repeat)
    plain = {key: tensor.detach().cpu().double().flatten().tolist() for key, tensor in arrays.items()}
    with open(file, "w") as out:
        json.dump({"arrays": plain, "times": {"build": build, **times}}, out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
