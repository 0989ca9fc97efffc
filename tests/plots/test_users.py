"""Users: each is drawn once, where the draws say, and marked by cluster."""

import io
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import Ellipse

import dualview as dv
from dualview import plots
from dualview.errors import InputError
from dualview.plots import canvas, users
from plots.artists import clouds, colliding_texts, legend_texts, segments

pytestmark = pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")


def test_features_draws_each_user_in_its_cluster(model, forum, axes):
    assert plots.features(model, forum.features, axes) is axes
    drawn = clouds(axes)
    assert len(drawn) == model.n_clusters_
    for cluster, cloud in enumerate(drawn):
        np.testing.assert_array_equal(cloud.get_offsets(), forum.features[model.labels_ == cluster])


def test_features_legend_has_cluster_sizes(model, forum, axes):
    plots.features(model, forum.features, axes)
    sizes = [f"{k}  ({n})" for k, n in enumerate(np.bincount(model.labels_))]
    assert legend_texts(axes) == [*sizes, "95 % contour"]
    assert axes.get_legend().get_title().get_text() == "cluster (users)"


def test_clusters_differ_in_colour_and_in_marker(model, forum, axes):
    drawn = clouds(plots.features(model, forum.features, axes))
    assert len({tuple(c.get_facecolor()[0]) for c in drawn}) == len(drawn)
    assert len({c.get_paths()[0].vertices.tobytes() for c in drawn}) == len(drawn)


def test_seventy_clusters_have_styles_of_their_own():
    styles = [canvas.cluster_style(k, 100) for k in range(70)]
    assert len({(s["color"], s["marker"]) for s in styles}) == 70


def test_markers_shrink_when_users_are_many():
    sizes = [canvas.cluster_style(0, n)["s"] for n in (10, 100, 300, 10**6)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] > 0


def test_features_columns_by_position_and_by_name(model, forum, axes):
    plots.features(model, forum.features, axes, columns=(1, -2))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("feature x1", "feature x0")
    np.testing.assert_array_equal(
        clouds(axes)[0].get_offsets(), forum.features[model.labels_ == 0][:, ::-1]
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_feature_names_come_from_the_frame(model, forum, axes, library):
    frame = pytest.importorskip(library).DataFrame(
        {"height": forum.features[:, 0], "weight": forum.features[:, 1]}
    )
    plots.features(model, frame, axes, columns=("weight", "height"))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("weight", "height")


def test_feature_names_come_from_the_fit_when_x_has_none(fit, forum, axes):
    frame = pytest.importorskip("pandas").DataFrame(forum.features, columns=["height", "weight"])
    plots.features(fit(frame, n_clusters=3), forum.features, axes)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("height", "weight")


def test_features_of_a_model_without_features(fit, forum, behavior, axes):
    plots.features(fit(None, behavior, n_clusters=1), forum.features, axes)
    np.testing.assert_array_equal(clouds(axes)[0].get_offsets(), forum.features)


def relabelled(model, labels):
    """The model with another partition estimate."""
    other = type("Relabelled", (dv.DualViewMixture,), {"labels_": np.asarray(labels)})()
    other.posterior_, other.latent_ = model.posterior_, model.latent_
    return other


def ellipses(ax):
    return [patch for patch in ax.patches if isinstance(patch, Ellipse)]


def test_ellipses_are_the_normal_contours_of_the_clusters(model, forum, axes):
    plots.features(model, forum.features, axes)
    drawn = ellipses(axes)
    assert len(drawn) == model.n_clusters_
    for cluster, ellipse in enumerate(drawn):
        members = forum.features[model.labels_ == cluster]
        outline = ellipse.get_patch_transform().transform(ellipse.get_path().vertices)
        centred = outline - members.mean(axis=0)
        distances = np.einsum("ij,ij->i", centred @ np.linalg.inv(np.cov(members.T)), centred)
        np.testing.assert_allclose(np.exp(-0.5 * distances.min()), 0.05, rtol=1e-2)
        np.testing.assert_allclose(distances[0], -2 * np.log(0.05), rtol=1e-9)
        assert ellipse.get_edgecolor() == to_rgba(canvas.cluster_style(cluster, 24)["color"])


def test_ellipses_of_small_clusters_are_left_out(model, forum, axes):
    plots.features(relabelled(model, [0] * 19 + [1] * 3 + [2] * 2), forum.features, axes)
    assert len(ellipses(axes)) == 2


def test_ellipses_lie_inside_the_picture(model, forum, axes):
    plots.features(model, forum.features, axes)
    for ellipse in ellipses(axes):
        outline = ellipse.get_patch_transform().transform(ellipse.get_path().vertices[::3])
        for values, limits in zip(outline.T, (axes.get_xlim(), axes.get_ylim()), strict=True):
            assert limits[0] <= values.min() <= values.max() <= limits[1]


def test_ellipses_on_request_only(model, forum, axes):
    plots.features(model, forum.features, axes, ellipses=False)
    assert ellipses(axes) == []
    assert "95 % contour" not in legend_texts(axes)


def test_users_on_a_line_have_a_flat_ellipse(model, forum, axes):
    x = np.column_stack([forum.features[:, 0], 2 * forum.features[:, 0]])
    plots.features(model, x, axes)
    assert all(e.height <= 1e-6 * e.width for e in ellipses(axes))


def test_many_clusters_keep_the_legend_short(model, forum, axes):
    plots.features(relabelled(model, np.arange(24)), forum.features, axes)
    assert len(clouds(axes)) == 24
    assert len(legend_texts(axes)) == 12
    assert axes.get_legend().get_title().get_text().endswith("12 largest of 24")


@pytest.mark.parametrize("labels", [[0] * 24, [0] * 12 + [1] * 12, np.arange(24)])
def test_texts_do_not_collide(model, forum, labels):
    shown = relabelled(model, labels)
    assert colliding_texts(plots.features(shown, forum.features).figure) == []
    assert colliding_texts(plots.latent(shown, truth=forum.latent).figure) == []
    assert colliding_texts(plots.overview(shown, forum.features)[0].figure) == []


def test_latent_means_and_intervals_are_the_posteriors(model, axes):
    assert plots.latent(model, axes, probability=0.8) is axes
    means = np.concatenate([c.get_offsets()[:, 1] for c in clouds(axes)])
    ends = np.array([segment[:, 1] for segment in segments(axes)])
    order = [int(np.flatnonzero(model.latent_ == m)[0]) for m in means]
    assert sorted(order) == list(range(24))
    expected = np.quantile(model.posterior_["latent"], [0.1, 0.9], axis=(0, 1)).T
    np.testing.assert_allclose(ends, expected[order])


def test_latent_groups_by_cluster_and_sorts_inside(model, axes):
    plots.latent(model, axes)
    drawn = clouds(axes)
    assert len(drawn) == model.n_clusters_
    places = np.concatenate([c.get_offsets()[:, 0] for c in drawn])
    assert (np.diff(places) >= 1).all()
    for cloud in drawn:
        assert (np.diff(cloud.get_offsets()[:, 1]) >= 0).all()
    centres = [c.get_offsets()[:, 1].mean() for c in drawn]
    assert centres == sorted(centres)
    assert sorted(t.get_text() for t in axes.get_xticklabels()) == ["0", "1", "2"]


def test_latent_has_the_colours_of_features(model, axes):
    plots.latent(model, axes)
    for cloud in clouds(axes):
        user = np.flatnonzero(model.latent_ == cloud.get_offsets()[0, 1])[0]
        assert tuple(cloud.get_facecolor()[0]) == to_rgba(
            canvas.cluster_style(model.labels_[user], 24)["color"]
        )


def test_latent_labels_line_and_legend(model, axes):
    plots.latent(model, axes, probability=0.9)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("users, by cluster", "latent coefficient")
    assert legend_texts(axes) == ["posterior median, 90 % interval", "mean of all users"]
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(dashed[0].get_ydata(), model.latent_.mean())


def test_latent_draws_the_truth(model, forum, axes):
    plots.latent(model, axes, truth=forum.latent)
    assert "truth" in legend_texts(axes)
    groups = clouds(axes)
    ticks, means = groups[1::2], groups[::2]
    drawn = {
        (m, t)
        for a, b in zip(means, ticks, strict=True)
        for m, t in zip(a.get_offsets()[:, 1], b.get_offsets()[:, 1], strict=True)
    }
    assert drawn == set(zip(model.latent_, forum.latent, strict=True))


@pytest.mark.parametrize("labels", [[0] * 24, np.arange(24)])
def test_latent_legend_hides_nobody(model, forum, labels):
    ax = plots.latent(relabelled(model, labels), truth=forum.latent)
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    points = np.concatenate([*segments(ax), *(c.get_offsets() for c in clouds(ax))])
    assert not any(box.contains(*point) for point in ax.transData.transform(points))


def test_names_of_neighbouring_small_clusters_do_not_collide(axes):
    users._label_latent(axes, [(0.0, "10"), (2.5, "11"), (100.0, "12")], 200.0, "power")
    assert [t.get_text() for t in axes.get_xticklabels()] == ["10", "12"]


@pytest.mark.parametrize("draw", [lambda m, x: plots.features(m, x), lambda m, _: plots.latent(m)])
def test_new_axes_when_none_are_given(model, forum, draw):
    from matplotlib import pyplot

    assert draw(model, forum.features).figure.number in pyplot.get_fignums()


def test_overview_has_both_and_draws_where_it_is_told(model, forum):
    from matplotlib.figure import Figure

    given = Figure().subplots(1, 2)
    axes = plots.overview(model, forum.features, truth=forum.latent, axes=given)
    assert list(axes) == list(given)
    assert [ax.get_title(loc="left") for ax in axes] == ["Features", "Latent behavior"]
    buffer = io.BytesIO()
    axes[0].figure.savefig(buffer, format="png", dpi=50)
    assert buffer.getvalue().startswith(b"\x89PNG")
    from matplotlib import pyplot

    assert pyplot.get_fignums() == []


def test_overview_of_a_fit_without_a_behavior_has_the_features(features_only, forum):
    (ax,) = plots.overview(features_only)
    assert ax.get_title(loc="left") == "Features"
    assert sum(len(cloud.get_offsets()) for cloud in clouds(ax)) == len(forum.features)
    assert colliding_texts(ax.figure) == []


def test_overview_of_a_fit_without_features_has_the_latent_behavior(fit, behavior, forum):
    model = fit(None, behavior, n_clusters=3)
    (ax,) = plots.overview(model)
    assert ax.get_title(loc="left") == "Latent behavior"
    assert len(plots.overview(model, forum.features)) == 2


@pytest.mark.parametrize("draw", [lambda m: plots.features(m, np.zeros((3, 2))), plots.latent])
def test_unfitted_model_is_refused(draw):
    with pytest.raises(InputError, match="not fitted"):
        draw(dv.DualViewMixture())


def test_latent_needs_a_behavior(features_only):
    with pytest.raises(InputError, match="without a behavior"):
        plots.latent(features_only)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:-1], r"a row for each of the 24 users.*\(23, 2\)"),
        (lambda x: x.T, r"a row for each of the 24 users.*\(2, 24\)"),
        (lambda x: x[:, 0], "rows and columns"),
        (lambda x: np.where(np.arange(24)[:, None] == 5, np.nan, x), "row 5"),
    ],
)
def test_features_of_a_wrong_shape_are_refused(model, forum, change, message):
    with pytest.raises(InputError, match=message):
        plots.features(model, change(forum.features))


def test_one_feature_has_no_picture(features_only, forum):
    """Once blamed on the columns that nobody had named."""
    with pytest.raises(InputError, match="needs two columns that are not nominal; the table X has"):
        plots.overview(features_only, forum.features[:, :1])


@pytest.mark.parametrize("columns", [(0, 2), (0,), (0, 1, 1), ("x", "y"), (0.5, 1), 0, (-3, 0)])
def test_columns_that_are_not_there_are_refused(model, forum, columns):
    with pytest.raises(InputError, match=r"two positions or names among the 2 column\(s\) of X"):
        plots.features(model, forum.features, columns=columns)


@pytest.mark.parametrize("probability", [0, 1, -0.5, 95])
def test_interval_needs_a_probability(model, probability):
    with pytest.raises(InputError, match="between 0 and 1"):
        plots.latent(model, probability=probability)


def test_truth_of_other_users_is_refused(model, forum):
    with pytest.raises(InputError, match="each of the 24 users of the fit; got 23"):
        plots.latent(model, truth=forum.latent[1:])


def test_refusals_draw_nothing(model, forum):
    from matplotlib import pyplot

    with pytest.raises(InputError):
        plots.features(model, forum.features[1:])
    with pytest.raises(InputError):
        plots.latent(model, truth=[1.0])
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda m, x: plots.features(m, x),
        lambda m, _: plots.latent(m),
        lambda m, x: plots.overview(m, x),
    ],
)
def test_without_matplotlib_the_message_names_the_extra(model, forum, monkeypatch, draw):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'dualview\[plots\]'"):
        draw(model, forum.features)
