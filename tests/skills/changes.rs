//! What each change makes of the files and of the log, and what it refuses.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use hermes_log::{Error, Origin};

use crate::support::log_files::Home;
use crate::{CAPACITY, at_once, events_of, folder, leftovers, make, skill_file, skills, tree, with_skill};

#[test]
fn every_change_has_its_event() {
    let home = Home::new(CAPACITY);
    let skills = skills(&home.profile);
    let new = home.path().join("new");
    make(&new, "pdf");
    fs::write(new.join("run.sh"), "#!/bin/sh").unwrap();
    fs::set_permissions(new.join("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();

    let created =
        skills.lock("pdf").unwrap().create(skill_file("pdf", "1").as_bytes(), Some("documents"), "agent").unwrap();
    assert_eq!(created, folder(&home, "documents/pdf").canonicalize().unwrap());
    let lock = skills.lock("pdf").unwrap();
    lock.edit(skill_file("pdf", "2").as_bytes()).unwrap();
    lock.write_file("SKILL.md", skill_file("pdf", "3").as_bytes()).unwrap();
    lock.write_file("references/deep/a.txt", b"a").unwrap();
    lock.remove_file("references/deep/a.txt").unwrap();
    lock.update(&new, "https://example.org").unwrap();
    assert_eq!(tree(&created), tree(&new));
    assert_eq!(fs::metadata(created.join("run.sh")).unwrap().mode() & 0o777, 0o750);
    assert!(skills.lock("pdf").unwrap().archive().unwrap().ends_with(".archive/pdf"));
    assert_eq!(skills.restore("pdf").unwrap(), folder(&home, "pdf").canonicalize().unwrap());
    skills.lock("pdf").unwrap().delete().unwrap();
    skills.lock("pdf").unwrap().install(&new, None, "https://example.org").unwrap();

    let wanted = [
        "created",
        "edited",
        "edited",
        "file_written",
        "file_removed",
        "updated",
        "archived",
        "restored",
        "deleted",
        "installed",
    ];
    assert_eq!(events_of(&home, "pdf"), wanted);
    assert_eq!(leftovers(&home).len(), 0);
}

#[test]
fn paths_that_leave_the_skills_folder_are_refused_and_nothing_is_changed() {
    let home = with_skill("documents/pdf");
    let own = folder(&home, "documents/pdf");
    make(&folder(&home, "other"), "other");
    fs::write(home.path().join("secret"), "secret").unwrap();
    symlink(home.path(), own.join("out")).unwrap();
    symlink("../../other", own.join("beside")).unwrap();
    symlink(home.path().join("secret"), own.join("link")).unwrap();
    symlink("/nowhere/at/all", own.join("dangling")).unwrap();
    let before = tree(home.path());
    let skills = skills(&home.profile);
    let lock = skills.lock("pdf").unwrap();
    let absolute = home.path().join("x").display().to_string();
    for path in [
        "..",
        "../x",
        "a/../../x",
        "references/../../other/SKILL.md",
        "/etc/x",
        &absolute,
        "out/x",
        "out/deep/x",
        "beside/x",
        "beside/SKILL.md",
        "link",
        "dangling",
        "",
        ".",
        "a/",
        "a\0b",
        ".hermes-log-0123456789abcdef.tmp",
    ] {
        let written = lock.write_file(path, b"x");
        assert!(matches!(written, Err(Error::Invalid { .. })), "{path:?}: {written:?}");
        let removed = lock.remove_file(path);
        assert!(matches!(removed, Err(Error::Invalid { .. })), "{path:?}: {removed:?}");
    }
    drop(lock);
    for name in ["..", "../x", "/x", "a/b", ".hidden", ".archive", "venv", "."] {
        let made = skills.lock(name).and_then(|lock| lock.create(b"x", None, "agent"));
        assert!(matches!(made, Err(Error::Invalid { .. })), "{name:?}: {made:?}");
        let made = skills.lock("new").unwrap().create(b"x", Some(name), "agent");
        assert!(matches!(made, Err(Error::Invalid { .. })), "{name:?}: {made:?}");
    }
    symlink(home.path(), folder(&home, "category")).unwrap();
    let made = skills.lock("new").unwrap().create(b"x", Some("category"), "agent");
    assert!(matches!(made, Err(Error::Invalid { .. })), "{made:?}");
    fs::remove_file(folder(&home, "category")).unwrap();
    assert_eq!(tree(home.path()), before);
    // A skill that is a link to somewhere else is none, as for Hermes.
    symlink(home.path().join("elsewhere"), folder(&home, "linked")).unwrap();
    make(&home.path().join("elsewhere"), "linked");
    assert!(skills.lock("linked").unwrap().folder().is_none());
    let from = home.path().join("from");
    make(&from, "fresh");
    symlink("/etc/passwd", from.join("passwd")).unwrap();
    let installed = skills.lock("fresh").unwrap().install(&from, None, "x");
    assert!(matches!(installed, Err(Error::Invalid { .. })), "{installed:?}");
    assert_eq!(leftovers(&home).len(), 0);
}

#[test]
fn links_that_stay_inside_are_followed_and_stay_and_modes_are_kept() {
    let home = with_skill("pdf");
    let own = folder(&home, "pdf");
    fs::write(own.join("real.sh"), "old").unwrap();
    fs::set_permissions(own.join("real.sh"), fs::Permissions::from_mode(0o751)).unwrap();
    symlink("real.sh", own.join("link.sh")).unwrap();
    let skills = skills(&home.profile);
    let lock = skills.lock("pdf").unwrap();
    lock.write_file("link.sh", b"new").unwrap();
    assert_eq!(fs::read_link(own.join("link.sh")).unwrap().to_str(), Some("real.sh"));
    assert_eq!(fs::read_to_string(own.join("real.sh")).unwrap(), "new");
    assert_eq!(fs::metadata(own.join("real.sh")).unwrap().mode() & 0o777, 0o751);
    lock.remove_file("link.sh").unwrap();
    assert!(own.join("real.sh").exists() && !own.join("link.sh").exists());
}

#[test]
fn a_change_that_would_make_another_skill_of_it_is_refused() {
    let home = with_skill("folder"); // only its front matter names it
    let skills = skills(&home.profile);
    let (other, nameless, nothing) =
        (home.path().join("other"), home.path().join("nameless"), home.path().join("nothing"));
    make(&other, "other");
    for folder in [&nameless, &nothing] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(nameless.join("SKILL.md"), "no front matter").unwrap();
    {
        let lock = skills.lock("pdf").unwrap();
        for content in [skill_file("other", ""), "no front matter".into()] {
            assert!(matches!(lock.edit(content.as_bytes()), Err(Error::Invalid { .. })), "{content:?}");
        }
        assert!(matches!(lock.remove_file("SKILL.md"), Err(Error::Refused { .. })));
        assert!(matches!(lock.remove_file("missing.txt"), Err(Error::NotFound { .. })));
    }
    for from in [&other, &nameless, &nothing] {
        let updated = skills.lock("pdf").unwrap().update(from, "x");
        assert!(matches!(updated, Err(Error::Invalid { .. })), "{updated:?}");
    }
    let created = skills.lock("new").unwrap().create(skill_file("other", "").as_bytes(), None, "agent");
    assert!(matches!(created, Err(Error::Invalid { .. })), "{created:?}");
    assert_eq!(tree(&folder(&home, "folder")), [("SKILL.md".into(), skill_file("pdf", ""))].into());
    assert!(events_of(&home, "pdf").is_empty());
    assert_eq!(leftovers(&home).len(), 0);
}

#[test]
fn a_skill_that_is_not_there_cannot_be_changed_and_one_that_is_cannot_be_made() {
    let home = with_skill("pdf");
    let from = home.path().join("from");
    make(&from, "new");
    let skills = at_once(&home.profile);
    let lock = skills.lock("new").unwrap();
    let missing = [lock.write_file("a", b""), lock.remove_file("a"), lock.edit(b"x"), lock.update(&from, "x")];
    for missing in missing {
        assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    }
    assert!(matches!(skills.lock("new").unwrap().archive(), Err(Error::NotFound { .. })));
    assert!(matches!(skills.lock("new").unwrap().delete(), Err(Error::NotFound { .. })));
    assert!(matches!(skills.restore("new"), Err(Error::NotFound { .. })));
    make(&from, "pdf");
    assert!(matches!(skills.lock("pdf").unwrap().create(b"x", None, "agent"), Err(Error::Refused { .. })));
    assert!(matches!(skills.lock("pdf").unwrap().install(&from, Some("x"), "x"), Err(Error::Refused { .. })));
    // A folder that is no skill is in the way, and stays.
    fs::create_dir_all(folder(&home, "taken/inside")).unwrap();
    assert!(matches!(skills.lock("taken").unwrap().create(b"x", None, "agent"), Err(Error::Refused { .. })));
    assert!(folder(&home, "taken/inside").exists());
    assert_eq!(leftovers(&home).len(), 0);
}

#[test]
fn an_archive_collision_is_stamped_and_restore_takes_the_exact_name_or_its_stamp_and_no_other() {
    let home = with_skill("pdf");
    let skills = skills(&home.profile);
    let archive = |text: &str| {
        fs::write(folder(&home, "pdf").join("own.txt"), text).unwrap();
        skills.lock("pdf").unwrap().archive().unwrap()
    };
    let first = archive("first");
    make(&folder(&home, "documents/pdf"), "pdf");
    fs::rename(folder(&home, "documents/pdf"), folder(&home, "pdf")).unwrap();
    let second = archive("second");
    assert!(first.ends_with(".archive/pdf"));
    let name = second.file_name().unwrap().to_str().unwrap();
    let stamp = name.strip_prefix("pdf-").unwrap();
    assert!(stamp.len() == 14 && stamp.bytes().all(|b| b.is_ascii_digit()) && stamp.starts_with("20"), "{name}");

    // Names that begin alike, and one that looks like a stamp.
    for similar in ["pdf-tools", "pdf-2026013123595", "pdf-202601312359599", "pdf-20260131abcdef", "pdfs", "PDF"] {
        let at = folder(&home, ".archive").join(similar);
        fs::create_dir(&at).unwrap();
        fs::write(at.join("SKILL.md"), "no name").unwrap();
    }
    let own = || fs::read_to_string(folder(&home, "pdf").join("own.txt")).unwrap();
    skills.restore("pdf").unwrap();
    assert_eq!(own(), "first");
    assert!(matches!(skills.restore("pdf"), Err(Error::Refused { .. })));
    skills.lock("pdf").unwrap().delete().unwrap();
    skills.restore("pdf").unwrap();
    assert_eq!(own(), "second");
    skills.lock("pdf").unwrap().delete().unwrap();
    assert!(matches!(skills.restore("pdf"), Err(Error::NotFound { .. })));
    assert_eq!(fs::read_dir(folder(&home, ".archive")).unwrap().count(), 6);
    // What looks like a stamp is a part of the name of this one.
    let at = folder(&home, ".archive").join("pdf-20260101000000");
    fs::create_dir(&at).unwrap();
    fs::write(at.join("SKILL.md"), "---\nname: pdf-20260101000000\n---\n").unwrap();
    assert!(matches!(skills.restore("pdf"), Err(Error::NotFound { .. })));
    skills.restore("pdf-20260101000000").unwrap();
    // A skill whose folder has another name than it is found in the archive by its own.
    make(&folder(&home, "documents/some-folder"), "Größe prüfen");
    skills.lock("Größe prüfen").unwrap().archive().unwrap();
    assert_eq!(skills.restore("Größe prüfen").unwrap(), folder(&home, "Größe prüfen").canonicalize().unwrap());
}

#[test]
fn a_skills_folder_behind_a_link_is_used_where_it_is_and_the_link_stays() {
    let home = Home::new(CAPACITY);
    let real = home.path().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, home.profile.skills_folder()).unwrap();
    let skills = home.profile.skills(Origin::here("session"));
    skills.lock("pdf").unwrap().create(b"x", Some("documents"), "agent").unwrap();
    skills.lock("pdf").unwrap().write_file("references/a.txt", b"a").unwrap();
    skills.lock("pdf").unwrap().archive().unwrap();
    skills.restore("pdf").unwrap();
    assert!(real.join("pdf/references/a.txt").exists());
    assert!(fs::symlink_metadata(home.profile.skills_folder()).unwrap().is_symlink());
}
